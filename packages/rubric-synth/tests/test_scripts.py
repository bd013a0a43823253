"""Raised and lowered text says the same on one line."""

import pytest

from rubric_synth.sources.cleaning.scripts import plain_scripts

_EXPONENTS = {
    "10<sup>6</sup> litres": "10^6 litres",
    "10 <sup>6</sup> litres": "10^6 litres",
    "5 × 10<sup>−3</sup> m": "5 × 10^-3 m",
    "10<sup>-3</sup>": "10^-3",
    "10<sup><i>n</i></sup>": "10^n",
    "2<sup>32</sup> states": "2^32 states",
    "64<sup>3</sup> cells": "64^3 cells",
    "10<jats:sup>13</jats:sup> neutrons": "10^13 neutrons",
    "10{sup 13} neutrons/cm{sup 2}": "10^13 neutrons/cm^2",
    "120 m<sup>2</sup> and 3 km<SUP>3</SUP>": "120 m^2 and 3 km^3",
    "W m<sup>-2</sup> K<sup>-1</sup>": "W m^-2 K^-1",
    "kg m $^{-2}$ s $^{-1}$": "kg m^-2 s^-1",
    "kg/m$^3$": "kg/m^3",
    "square metres<sup>2</sup>": "square metres^2",
    "R<sup>2</sup> = 0.98": "R^2 = 0.98",
    "e<sup>-kt</sup>": "e^-kt",
    "x<sup>n+1</sup>": "x^(n+1)",
    "2<sup>n−1</sup> trees of 2<sup>2n-1</sup>": "2^(n-1) trees of 2^(2n-1)",
    "E=mc<sup>2</sup> and dx<sup>2</sup>": "E=mc^2 and dx^2",
    "4<sup>1</sup>/<sub>2</sub> or <sup>3</sup>⁄<sub>4</sub> inch": "4 1/2 or 3/4 inch",
    "(1 + r)<sup>12</sup>": "(1 + r)^12",
    "Ca<sup>2+</sup> and Na<sup>+</sup>": "Ca^2+ and Na^+",
    "SO<sub>4</sub><sup>2−</sup>": "SO4^2-",
    "day<sup>−1</sup>": "day^-1",
    "sin<sup>2</sup>": "sin^2",
    "*x*<sup>2</sup> and **R**<sup>2</sup>": "*x*^2 and **R**^2",
    "1*s*<sup>2</sup>2*s*<sup>2</sup>2*p*<sup>6</sup>": "1*s*^(2)2*s*^(2)2*p*^6",
    "m<sup>-2</sup>s<sup>-1</sup>": "m^(-2)s^-1",
    "<sup>14</sup>C dates": "^14C dates",
    "and <sup>14C</sup> is rare": "and ^14C is rare",
    "by <sup>99mTc</sup> alone": "by ^99mTc alone",
    "from <sup>235</sup>U": "from ^235U",
    "25 <sup>o</sup>C": "25 °C",
    "25<sup>0</sup>C": "25°C",
    "0$^\\circ$C": "0°C",
    "the 2<sup>nd</sup> and 20<sup>th</sup>": "the 2nd and 20th",
    "<math><msup><mn>10</mn><mn>6</mn></msup></math>": "10^6",
    "<m:msup><m:mi>x</m:mi><m:mrow><m:mo>-</m:mo><m:mn>3</m:mn></m:mrow></m:msup>": "x^-3",
}
_NOTES = {
    "the reactor<sup>3</sup> was": "the reactor was",
    "the reactor.<sup>3</sup> It": "the reactor. It",
    "holds 250<sup>9</sup> litres": "holds 250 litres",
    "in 1998<sup>12</sup>.": "in 1998.",
    "as shown<sup>1,2</sup>.": "as shown.",
    "as shown <sup>[12]</sup>.": "as shown.",
    "as shown<sup>3–5</sup>,": "as shown,",
    "yield<sup>a</sup> of": "yield of",
    "a day<sup>b</sup> of": "a day of",
    "yield<sup>*</sup> of": "yield of",
    "of 40<sup>†</sup> tubes": "of 40 tubes",
    "10<sup>6</sup> litres<sup>[4](#fn4)</sup>": "10^6 litres",
    "of 250[<sup>9</sup>](#fn9) litres": "of 250 litres",
    "Teflon<sup>TM</sup> tubes": "Teflon tubes",
    "<sup>1</sup>Department of Physics": "Department of Physics",
    "sea<sup>2</sup> ice": "sea ice",
    "as shown<sup>a-c</sup> and 250<sup>1-3</sup>": "as shown and 250",
    "lead vs<sup>2</sup> tin": "lead vs tin",
}
_INDICES = {
    "H<sub>2</sub>O": "H2O",
    "CO<jats:sub>2</jats:sub>": "CO2",
    "H{sub 2}O": "H2O",
    "NO<sub>x</sub>": "NOx",
    "Al<sub>2</sub>(SO<sub>4</sub>)<sub>3</sub>": "Al2(SO4)3",
    "PM<sub>2.5</sub>": "PM2.5",
    "T<sub>max</sub>": "T_max",
    "101<sub>2</sub>": "101_2",
    "*x*<sub>2</sub>": "*x*2",
    "*n*<sub>e</sub>": "*n*_e",
    "x<sub>i,j</sub>": "x_(i,j)",
}


@pytest.mark.parametrize(("marked", "plain"), (_EXPONENTS | _NOTES | _INDICES).items())
def test_raised_and_lowered_text(marked: str, plain: str) -> None:
    assert plain_scripts(marked) == plain
    assert plain_scripts(plain) == plain.replace("$", "$")


def test_code_keeps_its_tags() -> None:
    text = "Write `10<sup>6</sup>`:\n\n```html\n<p>10<sup>6</sup></p>\n```\n\nfor 10<sup>6</sup>."
    assert plain_scripts(text) == text.removesuffix("10<sup>6</sup>.") + "10^6."


_MATHML = {
    "<mfrac><mn>1</mn><mn>2</mn></mfrac>": "1/2",
    "<mfrac><mrow><mi>a</mi><mo>+</mo><mn>1</mn></mrow><mn>2</mn></mfrac>": "(a+1)/2",
    "<mn>3</mn><mstyle><mfrac><mn>1</mn><mn>2</mn></mfrac></mstyle>": "3 1/2",
    "<mn>3</mn><mo>&#x2064;</mo><mfrac><mn>1</mn><mn>2</mn></mfrac>": "3 1/2",
    "<msup><mn>10</mn><mn>6</mn></msup><mn>5</mn>": "10^6 5",
    "<mn>3</mn><mn>5</mn><mo>&#x2062;</mo><mi>x</mi>": "35x",
    "<mn>3</mn><mo>&#x2062;</mo><mn>5</mn>": "3 5",
    "<msqrt><mn>2</mn></msqrt>": "√2",
    "<mroot><mn>8</mn><mn>3</mn></mroot>": "8^(1/3)",
    "<msup><mrow><mo>(</mo><mn>12</mn><mo>)</mo></mrow><mn>2</mn></msup>": "(12)^2",
    "<msup><msqrt><mn>2</mn></msqrt><mn>3</mn></msup>": "(√2)^3",
    "<msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup>": "x_1^2",
    "<mn>5</mn><mo>&times;</mo><msup><mn>10</mn><mn>−3</mn></msup>": "5×10^-3",
    "<mi>a</mi><mo>&lt;</mo><mn>5</mn>": "a&lt;5",
    "<mover><mi>x</mi><mo>¯</mo></mover>": "x¯",
    "<munderover><mo>∑</mo><mn>1</mn><mn>9</mn></munderover>": "∑_1^9",
    "<mmultiscripts><mi>U</mi><mprescripts/><mn>92</mn><mn>235</mn></mmultiscripts>": "_92^235U",
    "<mmultiscripts><mi>U</mi><mn>92</mn></mmultiscripts>": "U_92",
    "<mmultiscripts><mi>U</mi><mprescripts/><mn>235</mn></mmultiscripts>": "_235U",
    "<mfrac linethickness='0'><mn>5</mn><mn>2</mn></mfrac>": "[5; 2]",
    "<mfrac linethickness='0pt'><mn>5</mn><mn>2</mn></mfrac>": "[5; 2]",
    "<mfrac linethickness='0.5pt'><mn>5</mn><mn>2</mn></mfrac>": "5/2",
    "<MFRAC><MN>1</MN><MN>2</MN></MFRAC>": "1/2",
    "<mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr></mtable>": "[1, 2]",
    "<mfenced><mn>1</mn><mn>2</mn></mfenced>": "(1,2)",
    "<mn>4</mn><menclose notation='box'><mn>5</mn></menclose><mn>6</mn>": "4 5 6",
    "<menclose notation='updiagonalstrike'><mn>4</mn></menclose><mn>5</mn>": "4 5",
    "<mn>4</mn><menclose notation='longdiv'><mn>125</mn></menclose>": "4)125",
    "<mn>4</mn><menclose><mn>125</mn></menclose>": "4)125",
    "<mn>4</mn><menclose notation='radical'><mn>5</mn></menclose>": "4√5",
    "<mn>4</mn><mrow><menclose notation='box'><mn>5</mn></menclose></mrow><mn>6</mn>": "4 5 6",
    "<msup><menclose notation='box'><mn>5</mn></menclose><mn>2</mn></msup>": "5^2",
    "<menclose notation='box'><mi>x</mi><mo>=</mo><mn>5</mn></menclose>": "x=5",
    "<maction actiontype='toggle'><mn>1</mn><mn>2</mn></maction>": "1",
    "<maction actiontype='toggle' selection='2'><mn>1</mn><mn>2</mn></maction>": "2",
    "<semantics><mn>6</mn><annotation encoding='application/x-tex'>6</annotation></semantics>": "6",
}


@pytest.mark.parametrize("prefix", ["", "mml:"])
@pytest.mark.parametrize("formula", _MATHML)
def test_formulas_of_mathml(formula: str, prefix: str) -> None:
    written = formula.replace("</", "&close;").replace("<", f"<{prefix}")
    written = written.replace("&close;", f"</{prefix}")
    whole = f'It is <{prefix}math xmlns:mml="x">{written}</{prefix}math> of it.'
    assert plain_scripts(whole) == f"It is {_MATHML[formula]} of it."
    assert plain_scripts(f"`{whole}`") == f"`{whole}`"


@pytest.mark.parametrize(
    ("before", "formula", "after", "plain"),
    [
        ("3", "<mfrac><mn>1</mn><mn>2</mn></mfrac>", " cups", "3 1/2 cups"),
        ("x", "<msup><mn>2</mn><mn>4</mn></msup>", "3", "x2^4 3"),
        ("3", "<mn>5</mn>", "7", "357"),
        ("3", "<mi>x</mi>", "7", "3x7"),
        ("3", "<menclose notation='box'><mn>5</mn></menclose>", "7", "3 5 7"),
    ],
)
def test_a_formula_makes_no_number_with_the_digits_beside_it(
    before: str, formula: str, after: str, plain: str
) -> None:
    assert plain_scripts(f"{before}<math>{formula}</math>{after}") == plain


def test_a_formula_that_is_no_xml_stays() -> None:
    assert plain_scripts("<math><mn>1</mi></math>") == "<math><mn>1</mi></math>"


@pytest.mark.parametrize(
    "piece", ["<sup>", "<sup>a", "{sup ", "$^{", "`", "```\n", "<msup><mn>", "<math>"]
)
def test_openings_without_ends_stay(piece: str) -> None:
    assert plain_scripts(piece * 3_000).count(piece[:3]) == 3_000

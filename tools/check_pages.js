// What tools/check_pages.py asks of a page in the browser; gives a list of faults.
() => {
  const faults = []
  const visible = (element) => {
    const box = element.getBoundingClientRect()
    return box.width > 1 && box.height > 1 && element.checkVisibility({ visibilityProperty: true, opacityProperty: true })
  }
  const named = (element) => {
    const text = (element.innerText || element.getAttribute("aria-label") || "").trim().slice(0, 40)
    const kind = typeof element.className === "string" ? element.className.split(" ")[0] : ""
    return `${element.tagName.toLowerCase()}${kind && "." + kind} “${text}”`
  }

  // --- contrast, WCAG 1.4.3 ---
  const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true })
  const rgba = (colour) => {
    context.clearRect(0, 0, 1, 1)
    context.fillStyle = colour
    context.fillRect(0, 0, 1, 1)
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data
    return [r, g, b, a / 255]
  }
  const over = (top, below) => below.map((value, i) => top[i] * top[3] + value * (1 - top[3]))
  const backgroundOf = (element) => {
    const layers = []
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at)
      if (style.backgroundImage !== "none") return null // a picture: not for a sum
      layers.push(rgba(style.backgroundColor))
      if (layers.at(-1)[3] === 1) break
    }
    const page = matchMedia("(prefers-color-scheme: dark)").matches &&
      getComputedStyle(document.documentElement).colorScheme.includes("dark") ? [18, 18, 18] : [255, 255, 255]
    return layers.reverse().reduce((below, layer) => over(layer, below), page)
  }
  const luminance = (colour) => {
    const [r, g, b] = colour.map((value) => {
      const part = value / 255
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const poor = new Map()
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement
    if (!texts.currentNode.data.trim() || !element || !visible(element) || element.closest("[disabled], svg, script, style, noscript")) continue
    const below = backgroundOf(element)
    if (!below) continue
    const style = getComputedStyle(element)
    let opacity = 1
    for (let at = element; at; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity)
    const ink = rgba(style.color)
    ink[3] *= opacity
    const [high, low] = [luminance(over(ink, below)), luminance(below)].sort((a, b) => b - a)
    const ratio = (high + 0.05) / (low + 0.05)
    const size = parseFloat(style.fontSize)
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700)
    if (ratio < (large ? 3 : 4.5) - 0.005) {
      const key = `${style.color} on ${below.map(Math.round)}`
      if (!poor.has(key)) poor.set(key, `contrast ${ratio.toFixed(2)}: ${named(element)}, ${key}`)
    }
  }
  faults.push(...poor.values())

  // --- reach of the keyboard, WCAG 2.1.1 and 4.1.2 ---
  const keys = "a[href], button, input, select, textarea, summary, [tabindex]"
  for (const element of document.querySelectorAll("a[onclick], [onclick], [role=button], label[for], summary, button")) {
    if (!visible(element)) continue
    const control = element.control || element
    const reached = control.matches(keys) && control.tabIndex >= 0
    if (!reached && !element.closest(keys) && !element.querySelector(keys)) faults.push(`keyboard: ${named(element)} is out of reach`)
  }
  for (const element of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea"))
    if (visible(element) && !(element.innerText || element.getAttribute("aria-label") || element.title ||
        element.getAttribute("placeholder") || element.labels?.length || element.querySelector("img[alt], svg[aria-label]")))
      faults.push(`no name: ${named(element)}`)
  for (const picture of document.images) if (!picture.hasAttribute("alt")) faults.push(`no alternative text: ${picture.src}`)

  // --- the rest ---
  const width = document.documentElement.scrollWidth
  if (width > innerWidth) faults.push(`${width} px wide in a window of ${innerWidth}`)
  if (!document.documentElement.lang) faults.push("no language")
  window.focused = () => {
    const at = document.activeElement
    return at ? `${at.tagName} ${at.id} ${at.getAttribute("href") || ""} ${(at.innerText || "").slice(0, 30)}` : ""
  }
  return faults
}

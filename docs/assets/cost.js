// The calculator of "Estimate what a run costs": reads what `rubric-train plan` prints.
const form = document.getElementById("cost")
if (form) {
  const field = (name) => form.querySelector("#" + name)
  const found = (pattern) => (field("plan").value.match(pattern) || []).slice(1).map(Number)
  const dollars = (amount) =>
    amount.toLocaleString("en", { style: "currency", currency: "USD", maximumFractionDigits: 0 })
  const price = () => {
    const [steps] = found(/each of (\d+) steps/)
    const [calls] = found(/(\d+) calls a step/)
    const [machines, gpus] = found(/layout: (\d+) × (\d+) GPUs/)
    const seconds = found(/in all +([\d,.]+)(?: +([\d,.]+))?/)
    const [read, , written] = found(
      /reads ([\d.]+) million tokens, of which the prefix cache leaves ([\d.]+); writes ([\d.]+)/)
    const value = (name) => Number(field(name).value)
    if (!steps) return "No line “each of N steps” in the text: paste what `rubric-train plan` prints."
    const said = []
    if (calls) {
      const [millionsRead, millionsWritten] =
        read === undefined
          ? [(calls * value("read")) / 1e6, (calls * value("written")) / 1e6]
          : [read, written]
      const judging = steps * (millionsRead * value("in") + millionsWritten * value("out"))
      said.push(`${(steps * calls).toLocaleString("en")} judge calls, of a provider ${dollars(judging)}`)
    }
    if (gpus && seconds.length) {
      const hours = (steps * seconds[0] * machines * gpus) / 3600
      const shown = Math.round(hours).toLocaleString("en")
      said.push(`${shown} GPU hours on the first kind of GPU: ${dollars(hours * value("gpu"))}`)
    }
    return said.join(" · ") || "The plan names neither judge calls nor GPUs: the run costs its time."
  }
  const show = () => (field("said").textContent = price())
  form.addEventListener("input", show)
  form.addEventListener("submit", (event) => event.preventDefault())
  show()
}

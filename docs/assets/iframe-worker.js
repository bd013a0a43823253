// Search in a site that is opened from disk: a browser starts no worker of a file, so that the
// theme's search runs in a hidden frame that behaves like one.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      this.queue = []
      this.onmessage = null
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.title = "search"
      document.body.append(frame)
      const inside = frame.contentWindow
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data })
        this.dispatchEvent(event)
        if (this.onmessage) this.onmessage(event)
      }
      inside.importScripts = (...names) =>
        names.reduce((before, name) => before.then(() => loaded(inside, name)), Promise.resolve())
      loaded(inside, address).then(() => {
        this.frame = inside
        for (const data of this.queue) this.postMessage(data)
      })
    }

    postMessage(data) {
      if (this.frame) this.frame.dispatchEvent(new this.frame.MessageEvent("message", { data }))
      else this.queue.push(data)
    }
  }

const loaded = (inside, name) =>
  new Promise((done, failed) => {
    const script = inside.document.createElement("script")
    script.src = name
    script.onload = done
    script.onerror = failed
    inside.document.head.append(script)
  })

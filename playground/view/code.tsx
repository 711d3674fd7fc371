/** Code to be copied. */
import { useRef, useState } from 'preact/hooks'

/** How long it says that it has copied. */
const SAID_MS = 2_000

/** A program, and a button that copies it. */
export function Code({ code, name }: { readonly code: string; readonly name: string }) {
  const place = useRef<HTMLElement>(null)
  const [said, setSaid] = useState('')
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(code)
      setSaid('Copied')
    } catch {
      // Without the right to write, it is selected, to be copied by hand.
      if (place.current !== null) {
        getSelection()?.selectAllChildren(place.current)
      }
      setSaid('Selected')
    }
    setTimeout(() => setSaid(''), SAID_MS)
  }
  return (
    <details class="code" open>
      <summary>
        Code<span class="hidden"> for {name}</span>
      </summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be in reach of the keyboard */}
      <section class="program" tabIndex={0} aria-label={`Code for ${name}`}>
        <pre>
          <code ref={place}>{code}</code>
        </pre>
      </section>
      <button type="button" onClick={copy}>
        Copy<span class="hidden"> the code for {name}</span>
      </button>
      <span class="said" role="status">
        {said}
      </span>
    </details>
  )
}

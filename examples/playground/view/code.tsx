/** Code with a copy button. */
import { useRef, useState } from 'preact/hooks'
import { partsOf } from '../model/highlight.js'

/** How long the confirmation is shown. */
const STATUS_MS = 2_000

/** A program with a button that copies it. */
export function Code({ code, name }: { readonly code: string; readonly name: string }) {
  const place = useRef<HTMLElement>(null)
  const [status, setStatus] = useState('')
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(code)
      setStatus('Copied')
    } catch {
      // Without permission to write to the clipboard, the code is selected for manual copying.
      if (place.current !== null) {
        getSelection()?.selectAllChildren(place.current)
      }
      setStatus('Selected')
    }
    setTimeout(() => setStatus(''), STATUS_MS)
  }
  return (
    <details class="code" open>
      <summary>
        Code<span class="hidden"> for {name}</span>
      </summary>
      <section class="program" aria-label={`Code for ${name}`}>
        <pre>
          <code ref={place}>
            {partsOf(code).map(({ kind, text }, index) =>
              kind === 'plain' ? (
                text
              ) : (
                <span key={index} class={kind}>
                  {text}
                </span>
              ),
            )}
          </code>
        </pre>
      </section>
      <button type="button" onClick={copy}>
        Copy<span class="hidden"> the code for {name}</span>
      </button>
      <span class="status" role="status">
        {status}
      </span>
    </details>
  )
}

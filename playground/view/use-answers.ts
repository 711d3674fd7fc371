/** Asks the worker for what is on the page, and has its newest answer. */
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Answer, Judged, Request, Sent } from '../model/messages.js'
import type { State } from '../model/state.js'

/** What is known of the page's state. */
export interface Known {
  /** The newest answer; it may be of a state before. */
  readonly answer: Answer | undefined
  /** The newest traffic that could be sent, and what became of it under each policy that could judge it. */
  readonly sent: Sent | undefined
  readonly judged: readonly Judged[]
  /** Whether the answer is still to come. */
  readonly isBusy: boolean
  /** What broke, if anything did. */
  readonly failure: string | undefined
}

/** Waits so long for the next key to be typed. */
const TYPING_MS = 60

const NOTHING: Known = { answer: undefined, sent: undefined, judged: [], isBusy: true, failure: undefined }

/** The answers to a state, which are computed elsewhere: the page is never held up. */
export function useAnswers(state: State): Known {
  const worker = useRef<Worker>(null)
  const asked = useRef(0)
  const [known, setKnown] = useState(NOTHING)

  useEffect(() => {
    const started = new Worker(new URL('worker.js', document.baseURI), { type: 'module' })
    started.addEventListener('message', ({ data }: MessageEvent<Answer>) => {
      if (data.id !== asked.current) {
        return
      }
      const news = 'sent' in data ? { sent: data.sent, judged: data.judged } : {}
      setKnown((before) => ({ ...before, ...news, answer: data, isBusy: false, failure: undefined }))
    })
    started.addEventListener('error', ({ message }) => {
      const failure = message || 'The engine could not be loaded'
      setKnown((before) => ({ ...before, isBusy: false, failure }))
    })
    worker.current = started
    return () => started.terminate()
  }, [])

  useEffect(() => {
    asked.current++
    const request: Request = { id: asked.current, state }
    setKnown((before) => (before.isBusy ? before : { ...before, isBusy: true }))
    const timer = setTimeout(() => worker.current?.postMessage(request), TYPING_MS)
    return () => clearTimeout(timer)
  }, [state])

  return known
}

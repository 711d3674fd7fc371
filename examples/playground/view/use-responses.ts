/** Requests results from the worker, and returns the newest response. */
import { useEffect, useRef, useState } from 'preact/hooks'
import type { PolicyResult, TrafficSummary, WorkerRequest, WorkerResponse } from '../model/messages.js'
import type { PageState } from '../model/state.js'

/** The state of the responses. */
export interface ResponseState {
  /** The newest response. It may belong to an earlier state. */
  readonly answer: WorkerResponse | undefined
  /** The newest valid traffic, and the result of each policy. */
  readonly summary: TrafficSummary | undefined
  readonly results: readonly PolicyResult[]
  /** Whether a response is pending. */
  readonly isBusy: boolean
  /** The message of an internal failure. */
  readonly failure: string | undefined
}

/** The delay after a keystroke, in case another one follows. */
const TYPING_DELAY_MS = 60

const INITIAL: ResponseState = { answer: undefined, summary: undefined, results: [], isBusy: true, failure: undefined }

/** The responses for a state. A worker computes them, so the page never blocks. */
export function useResponses(state: PageState): ResponseState {
  const worker = useRef<Worker>(null)
  const lastId = useRef(0)
  const [responses, setResponses] = useState(INITIAL)

  useEffect(() => {
    const started = new Worker(new URL('worker.js', document.baseURI), { type: 'module' })
    started.addEventListener('message', ({ data }: MessageEvent<WorkerResponse>) => {
      if (data.id !== lastId.current) {
        return
      }
      const update = 'summary' in data ? { summary: data.summary, results: data.results } : {}
      setResponses((previous) => ({ ...previous, ...update, answer: data, isBusy: false, failure: undefined }))
    })
    started.addEventListener('error', ({ message }) => {
      const failure = message || 'The engine could not be loaded'
      setResponses((previous) => ({ ...previous, isBusy: false, failure }))
    })
    worker.current = started
    return () => started.terminate()
  }, [])

  useEffect(() => {
    lastId.current++
    const request: WorkerRequest = { id: lastId.current, state }
    setResponses((previous) => (previous.isBusy ? previous : { ...previous, isBusy: true }))
    const timer = setTimeout(() => worker.current?.postMessage(request), TYPING_DELAY_MS)
    return () => clearTimeout(timer)
  }, [state])

  return responses
}

import type { PermitSignal } from '../api/permit.js'
import { addAbortListener, removeAbortListener } from '../api/scheduled-waits.js'
import type { AbortSignalLike } from '../api/wait.js'

/** Aborts a controller with a signal. Returns a function that ends this. */
export function linkSignal(signal: AbortSignalLike | undefined, controller: AbortController): () => void {
  if (signal === undefined) {
    return () => {}
  }
  const onAbort = () => controller.abort(signal.reason)
  if (signal.aborted) {
    onAbort()
    return () => {}
  }
  addAbortListener(signal, onAbort)
  return () => removeAbortListener(signal, onAbort)
}

/** A signal that is aborted with any of two. `AbortSignal.any` takes only signals of the platform. */
export function eitherSignal(one: AbortSignalLike | undefined, other: AbortSignalLike | undefined) {
  if (one === undefined || other === undefined || one === other) {
    return { signal: one ?? other, unlink: () => {} }
  }
  const controller = new AbortController()
  const unlinks = [linkSignal(one, controller), linkSignal(other, controller)]
  const unlink = () => {
    for (const each of unlinks) {
      each()
    }
  }
  return { signal: controller.signal as PermitSignal, unlink }
}

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

/** Keeps the controllers of responses reachable for as long as their bodies. */
const CONTROLLERS = new WeakMap<object, AbortController>()

/** Some Workers have no such registry. Their signals belong to one request, and so do the links. */
const UNLINKS =
  typeof FinalizationRegistry === 'function' ? new FinalizationRegistry<() => void>((unlink) => unlink()) : undefined

/**
 * Aborts a controller with a signal for as long as a body is reachable. Nothing tells when a body has been read: so the
 * signal, which may outlive many bodies, does not keep the controller.
 */
export function linkWithBody(signal: AbortSignalLike, controller: AbortController, body: object): void {
  if (UNLINKS === undefined) {
    linkSignal(signal, controller)
    return
  }
  const reference = new WeakRef(controller)
  const onAbort = () => reference.deref()?.abort(signal.reason)
  CONTROLLERS.set(body, controller)
  addAbortListener(signal, onAbort)
  UNLINKS.register(controller, () => removeAbortListener(signal, onAbort))
}

export function signalsIn(signals: readonly (AbortSignalLike | undefined)[]): AbortSignalLike[] {
  return signals.filter((signal) => signal !== undefined)
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

/** The page's state, which is in its address. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { hashOf, type State, stateOf } from '../model/state.js'

/** Addresses are written so long after the last change: browsers refuse to be told too often. */
const QUIET_MS = 250

/** The state of the address, and a way to change both. A link to another state within the page is followed. */
export function useAddress(): readonly [state: State, setState: (state: State) => void] {
  const [state, setState] = useState(() => stateOf(location.hash))
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  // Replacing the address by ourselves is no event: whatever is one comes from a link or from the person.
  useEffect(() => {
    const follow = () => {
      clearTimeout(timer.current)
      setState(stateOf(location.hash))
    }
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])
  const change = useCallback((next: State) => {
    setState(next)
    clearTimeout(timer.current)
    timer.current = setTimeout(() => history.replaceState(null, '', `#${hashOf(next)}`), QUIET_MS)
  }, [])
  return [state, change]
}

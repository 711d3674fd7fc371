/** The page's state, which is stored in its address. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { hashOf, type PageState, stateOf } from '../model/state.js'

/** The delay before the address is written: browsers limit the rate of changes. */
const WRITE_DELAY_MS = 250

/**
 * The state of the address, and a function that changes both. Links to other states of the page are
 * followed.
 */
export function useAddress(): readonly [state: PageState, setState: (state: PageState) => void] {
  const [state, setState] = useState(() => stateOf(location.hash))
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  // `replaceState` fires no event, so every event comes from a link or from the user.
  useEffect(() => {
    const follow = () => {
      clearTimeout(timer.current)
      setState(stateOf(location.hash))
    }
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])
  const change = useCallback((next: PageState) => {
    setState(next)
    clearTimeout(timer.current)
    timer.current = setTimeout(() => history.replaceState(null, '', `#${hashOf(next)}`), WRITE_DELAY_MS)
  }, [])
  return [state, change]
}

import { TollgateError } from '../../api/error.js'
import type { RedisStoreOptions } from './options.js'
import { loginOf } from './target.js'

/**
 * Asks who connects, and tells the engine: a username, a password, or why there is none. What an error of the
 * user's says is not told on: it may hold a secret.
 */
export async function login(
  credentials: NonNullable<RedisStoreOptions['credentials']>,
  tell: (username: string | undefined, password: string | undefined, failed: string | undefined) => void,
): Promise<void> {
  try {
    const given: unknown = await credentials()
    if (typeof given !== 'object' || given === null || !('password' in given)) {
      throw new TollgateError('INVALID_OPTION', 'credentials must return { username?, password }')
    }
    const { username, password } = loginOf('credentials: ', given)
    tell(username, password, undefined)
  } catch (error) {
    const name = error instanceof Error ? error.name : typeof error
    tell(undefined, undefined, TollgateError.is(error) ? error.message : `credentials failed with ${name}`)
  }
}

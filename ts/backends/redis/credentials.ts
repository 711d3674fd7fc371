import { TollgateError } from '../../api/error.js'
import type { RedisStoreOptions } from './options.js'
import { loginOf } from './target.js'

/** Calls the user's function. The message of its error is not passed on: it may contain a secret. */
export async function requestCredentials(
  credentials: NonNullable<RedisStoreOptions['credentials']>,
  reply: (username: string | undefined, password: string | undefined, failed: string | undefined) => void,
): Promise<void> {
  try {
    const login: unknown = await credentials()
    if (typeof login !== 'object' || login === null || !('password' in login)) {
      throw new TollgateError('INVALID_OPTION', 'credentials must return { username?, password }')
    }
    const { username, password } = loginOf('credentials: ', login)
    reply(username, password, undefined)
  } catch (error) {
    const name = error instanceof Error ? error.name : typeof error
    reply(undefined, undefined, TollgateError.is(error) ? error.message : `credentials failed with ${name}`)
  }
}

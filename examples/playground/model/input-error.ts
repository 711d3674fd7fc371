/** Errors in the input, in the words of the page. */
import type { FieldLeaf } from './fields.js'

/** An error in the input: its message, and the path of the field if it is known. */
export interface InputError {
  readonly message: string
  readonly path?: string
}

/**
 * The error for a message of the engine or of the traffic. Such a message is `PREFIX: PATH RULE, got
 * VALUE`. The page names the field by its label.
 */
export function inputErrorOf(message: string, prefix: string, leaves: readonly FieldLeaf[]): InputError {
  const rest = message.startsWith(prefix) ? message.slice(prefix.length) : message
  const leaf = leaves.find(({ path }) => rest.startsWith(path) && !/^[\w.]/.test(rest.slice(path.length)))
  const named = leaf === undefined ? capitalised(rest) : `${leaf.label}${rest.slice(leaf.path.length)}`
  const words = `${named.replace(/, got (.+)$/s, '. You typed $1')}.`
  return { message: words, ...(leaf !== undefined && { path: leaf.path }) }
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

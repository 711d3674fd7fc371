import type { Readable, Writable } from 'node:stream'
import { Help } from 'commander'
import stringWidth from 'string-width'
import { formatNumber } from './format.js'

/** The streams and the environment of a command; `process` is one. */
export interface Terminal {
  readonly stdin: Readable & { readonly isTTY?: boolean }
  readonly stdout: Writable & { readonly isTTY?: boolean; readonly columns?: number; readonly rows?: number }
  readonly stderr: Writable & { readonly isTTY?: boolean; readonly columns?: number }
  readonly env: Readonly<Record<string, string | undefined>>
}

/** Colours a text, or leaves it as it is. */
export type Paint = (style: keyof typeof STYLES, text: string) => string

/** The numbers that begin and end a style in a terminal (ECMA-48). */
const STYLES = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  blue: [34, 39],
} as const

export const plain: Paint = (_, text) => text

/** Colours texts where the output is a terminal, unless the user has set `NO_COLOR` (no-color.org). */
export function paintFor({ stdout, env }: Terminal): Paint {
  const { NO_COLOR, TERM }: { readonly NO_COLOR?: string; readonly TERM?: string } = env
  if (stdout.isTTY !== true || NO_COLOR || TERM === 'dumb') {
    return plain
  }
  return (style, text) => {
    const [begin, end] = STYLES[style]
    return text === '' ? text : `\u001b[${begin}m${text}\u001b[${end}m`
  }
}

/** Characters that a terminal would interpret, and those that are invisible or change the direction of writing. */
const HOSTILE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu

/** Escapes a text for printing. Logs and keys may contain anything that clients send. */
export function escapeControls(text: string): string {
  return text.replace(HOSTILE, (character) => {
    const code = character.codePointAt(0) as number
    return code < 0x100 ? `\\x${hex(code, 2)}` : code < 0x1_0000 ? `\\u${hex(code, 4)}` : `\\u{${hex(code, 1)}}`
  })
}

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, '0')
}

/** A text as a word of a shell, for printing. Strangers choose keys, so a pasted key must never be a command. */
export function shellWord(text: string): string {
  // zsh replaces a word that begins with "=".
  if (/^(?!=)[\p{L}\p{N}_./:@%+,=-]+$/u.test(text)) {
    return text
  }
  if (text === escapeControls(text)) {
    return `'${text.replaceAll("'", "'\\''")}'`
  }
  const bytes = (character: string) => [...Buffer.from(character)].map((byte) => `\\x${hex(byte, 2)}`).join('')
  return `$'${text.replace(/[\\']/g, '\\$&').replace(HOSTILE, bytes)}'`
}

/** {@link escapeControls}, cut to a number of columns. */
export function shortened(text: string, columns: number): string {
  const whole = escapeControls(text)
  if (stringWidth(whole) <= columns) {
    return whole
  }
  let cut = ''
  let width = 1
  for (const character of whole) {
    width += stringWidth(character)
    if (width > columns) {
      break
    }
    cut += character
  }
  return `${cut}…`
}

/** The width of a terminal; `undefined` for other streams. */
export function columnsOf({ isTTY, columns }: Terminal['stderr']): number | undefined {
  return isTTY === true ? columns : undefined
}

/** Lines that a user copies: a break would change them. */
const COPIED = /^ *(npx|zcat|new) /

/** Breaks the lines of a text at spaces, with the indentation of each line, so that they fit the terminal. */
export function wrapped(text: string, columns: number | undefined): string {
  if (columns === undefined) {
    return text
  }
  const lines = text.split('\n').map((line) => {
    if (stringWidth(line) <= columns || COPIED.test(line)) {
      return line
    }
    const [indentation = ''] = /^ */.exec(line) ?? []
    const broken = new Help().boxWrap(line.trimStart(), columns - indentation.length)
    return broken.replaceAll(/^/gm, indentation)
  })
  return lines.join('\n')
}

/** Prints the result of a command: as JSON, or as text that fits the terminal. */
export function printResult(
  terminal: Terminal,
  format: 'text' | 'json',
  result: object,
  textOf: (paint: Paint, columns: number | undefined) => string,
): void {
  const columns = columnsOf(terminal.stdout)
  const text = () => wrapped(textOf(paintFor(terminal), columns), columns)
  terminal.stdout.write(format === 'json' ? `${JSON.stringify(result, undefined, 2)}\n` : text())
}

export interface TableFit {
  /** The columns of the terminal; without them a table is as wide as its texts. */
  readonly columns: number | undefined
  /** The indexes of text columns that may be cut, and of columns that may be left out, in this order. */
  readonly cut: readonly number[]
  readonly omit?: readonly number[]
}

const LEAST_CUT = 12

/** Aligns rows as columns: text to the left, numbers to the right. */
export function table(
  rows: readonly (readonly (string | number)[])[],
  { columns = Number.POSITIVE_INFINITY, cut, omit = [] }: TableFit = { columns: undefined, cut: [] },
): string {
  const texts = rows.map((row) => row.map((cell) => (typeof cell === 'number' ? formatNumber(cell) : cell)))
  const widths: number[] = []
  for (const row of texts) {
    row.forEach((text, column) => {
      widths[column] = Math.max(widths[column] ?? 0, stringWidth(text))
    })
  }
  const shown = new Set(widths.keys())
  const excess = () => [...shown].reduce((sum, column) => sum + (widths[column] as number) + 2, 0) - columns
  const spare = (column: number) => Math.max((widths[column] as number) - LEAST_CUT, 0)
  const allSpare = cut.reduce((sum, column) => sum + spare(column), 0)
  for (const column of omit) {
    if (excess() > allSpare) {
      shown.delete(column)
    }
  }
  for (const column of cut) {
    ;(widths[column] as number) -= Math.min(spare(column), Math.max(excess(), 0))
  }
  const isNumeric = widths.map((_, column) => rows.some((row) => typeof row[column] === 'number'))
  const lines = texts.map((row) => {
    const cells = row.map((whole, column) => {
      const width = widths[column] as number
      const text = stringWidth(whole) > width ? shortened(whole, width) : whole
      const padding = ' '.repeat(width - stringWidth(text))
      return isNumeric[column] ? padding + text : text + padding
    })
    return `  ${cells.filter((_, column) => shown.has(column)).join('  ')}`.trimEnd()
  })
  return `${lines.join('\n')}\n`
}

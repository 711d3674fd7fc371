import type { Readable, Writable } from 'node:stream'
import stringWidth from 'string-width'

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

/** For outputs that are no terminal. */
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

/**
 * Characters that a terminal would interpret, or that would make a text look different: control
 * characters, marks that change the direction of writing, characters without width, unpaired
 * surrogates.
 */
const HOSTILE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu

/** Escapes a text for printing. Logs and keys contain whatever clients send. */
export function escapeControls(text: string): string {
  return text.replace(HOSTILE, (character) => {
    const code = character.codePointAt(0) as number
    return code < 0x100 ? `\\x${hex(code, 2)}` : code < 0x1_0000 ? `\\u${hex(code, 4)}` : `\\u{${hex(code, 1)}}`
  })
}

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, '0')
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

/** Aligns rows as columns: text to the left, numbers to the right. */
export function table(rows: readonly (readonly (string | number)[])[], indent = '  '): string {
  const widths: number[] = []
  for (const row of rows) {
    row.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, stringWidth(cellText(cell)))
    })
  }
  const isNumeric = widths.map((_, column) => rows.some((row) => typeof row[column] === 'number'))
  const lines = rows.map((row) => {
    const cells = row.map((cell, column) => {
      const text = cellText(cell)
      const padding = ' '.repeat((widths[column] as number) - stringWidth(text))
      return isNumeric[column] ? padding + text : text + padding
    })
    return `${indent}${cells.join('  ')}`.trimEnd()
  })
  return `${lines.join('\n')}\n`
}

/** A number with thousands separators: 1,234,567. */
export function grouped(number: number): string {
  return number.toLocaleString('en-US')
}

function cellText(cell: string | number): string {
  return typeof cell === 'number' ? grouped(cell) : cell
}

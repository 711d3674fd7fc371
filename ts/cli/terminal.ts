import type { Readable, Writable } from 'node:stream'
import stringWidth from 'string-width'

/** What a command may read and write; `process` is one. */
export interface Terminal {
  readonly stdin: Readable & { readonly isTTY?: boolean }
  readonly stdout: Writable & { readonly isTTY?: boolean; readonly columns?: number }
  readonly stderr: Writable & { readonly isTTY?: boolean; readonly columns?: number }
  readonly env: Readonly<Record<string, string | undefined>>
}

/**
 * What a terminal would obey, or what would show a text otherwise than it is: control characters, marks that turn the
 * direction of writing, characters without width, halves of characters.
 */
const HOSTILE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu

/** A stranger's text as it may be printed: what is in logs and in keys is written by whoever sends requests. */
export function printable(text: string): string {
  return text.replace(HOSTILE, (character) => {
    const code = character.codePointAt(0) as number
    return code < 0x100 ? `\\x${hex(code, 2)}` : code < 0x1_0000 ? `\\u${hex(code, 4)}` : `\\u{${hex(code, 1)}}`
  })
}

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, '0')
}

/** {@link printable}, cut to so many columns. */
export function shortened(text: string, columns: number): string {
  const whole = printable(text)
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

/** Rows as columns: the first to the left, numbers to the right. */
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

/** A number with its thousands apart: 1,234,567. */
export function grouped(number: number): string {
  return number.toLocaleString('en-US')
}

function cellText(cell: string | number): string {
  return typeof cell === 'number' ? grouped(cell) : cell
}

/** The length of a text in bytes of UTF-8. A lone surrogate counts as three bytes. */
export function utf8Length(text: string): number {
  let length = text.length
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index)
    // Each half of a pair adds one byte: four bytes for two code units.
    length += unit < 0x80 ? 0 : unit < 0x800 ? 1 : isPair(text, index) ? 1 : 2
  }
  return length
}

function isPair(text: string, index: number): boolean {
  const unit = text.charCodeAt(index)
  return isHigh(unit) ? isLow(text.charCodeAt(index + 1)) : isLow(unit) && isHigh(text.charCodeAt(index - 1))
}

function isHigh(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00
}

function isLow(unit: number): boolean {
  return unit >= 0xdc00 && unit < 0xe000
}

const LONE_SURROGATE = /\p{Surrogate}/u

/** Whether a text has no lone surrogate. */
export function isWellFormed(text: string): boolean {
  return !LONE_SURROGATE.test(text)
}

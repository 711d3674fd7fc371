/** Divides generated TypeScript into coloured parts. */

/** A part of a program. `plain` has the colour of text. */
export interface CodePart {
  readonly kind: 'keyword' | 'string' | 'number' | 'call' | 'plain'
  readonly text: string
}

const PARTS =
  /(?<string>'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`)|(?<keyword>\b(?:import|from|const|await|if|new)\b)|(?<number>\b\d[\d_.]*\b)|(?<call>\b[A-Za-z_]\w*(?=\())/g

/** The parts of a program. Joined, they are the program. */
export function partsOf(code: string): readonly CodePart[] {
  const parts: CodePart[] = []
  let end = 0
  for (const match of code.matchAll(PARTS)) {
    const [kind] = Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined) ?? ['plain']
    parts.push({ kind: 'plain', text: code.slice(end, match.index) })
    parts.push({ kind: kind as CodePart['kind'], text: match[0] })
    end = match.index + match[0].length
  }
  parts.push({ kind: 'plain', text: code.slice(end) })
  return parts.filter(({ text }) => text !== '')
}

/** The repository's Markdown files: their code, links and headings. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import MarkdownIt from 'markdown-it'

export const ROOT = join(__dirname, '..', '..')

/** A fenced block of code. */
export interface Block {
  /** The page's path from the root. */
  readonly page: string
  /** The line of the page on which the code begins, from 1. */
  readonly line: number
  readonly language: string
  readonly code: string
  /**
   * The values that the code needs, as the comment above it declares them: `given NAME: TYPE; NAME:
   * TYPE`. Names and their TypeScript types.
   */
  readonly given: readonly (readonly [name: string, type: string])[]
}

/** A link or an image. */
export interface Link {
  readonly page: string
  readonly line: number
  readonly target: string
}

export interface Page {
  readonly path: string
  readonly text: string
  readonly blocks: readonly Block[]
  readonly links: readonly Link[]
  /** The anchors of its headings. */
  readonly anchors: ReadonlySet<string>
  /** Inline code that is an npm command. */
  readonly commands: readonly (readonly [line: number, command: string])[]
}

type Token = ReturnType<MarkdownIt['parse']>[number]

const markdown = new MarkdownIt({ html: true })

/** All Markdown pages of the working tree, also uncommitted ones. */
export const pages: readonly Page[] = listed().map((path) => pageOf(path, readFileSync(join(ROOT, path), 'utf8')))

/** All code blocks of all pages. */
export const blocks: readonly Block[] = pages.flatMap((page) => page.blocks)

/** The place of a block, for messages. */
export function placeOf({ page, line }: { readonly page: string; readonly line: number }): string {
  return `${page}:${line}`
}

/** Parses a page. Indented code is a block without a language. */
export function pageOf(path: string, text: string): Page {
  const blocks: Block[] = []
  const links: Link[] = []
  const commands: (readonly [number, string])[] = []
  const anchors = new Set<string>()
  const tokens = markdown.parse(text, {})
  for (const [index, token] of tokens.entries()) {
    const line = (token.map?.[0] ?? 0) + 1
    if (token.type === 'fence') {
      const given = givenBy(tokens[index - 1])
      blocks.push({ page: path, line: line + 1, language: token.info.trim(), code: token.content, given })
    } else if (token.type === 'code_block') {
      blocks.push({ page: path, line, language: '', code: token.content, given: [] })
    } else if (token.type === 'heading_open') {
      anchors.add(newAnchor(anchors, tokens[index + 1]))
    }
    for (const child of token.children ?? []) {
      const target = child.attrGet('href') ?? child.attrGet('src')
      if (target !== null) {
        links.push({ page: path, line, target })
      } else if (child.type === 'code_inline' && /^npm (ci|run|test|start|exec)\b/.test(child.content)) {
        commands.push([line, child.content])
      }
    }
  }
  return { path, text, blocks, links, anchors, commands }
}

/** The anchor that GitHub and npm generate for a heading. */
function newAnchor(taken: ReadonlySet<string>, heading: Token | undefined): string {
  const text = (heading?.children ?? []).map(({ content }) => content).join('')
  const anchor = text
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '')
    .replace(/ /g, '-')
  for (let count = 0; ; count++) {
    const name = count === 0 ? anchor : `${anchor}-${count}`
    if (!taken.has(name)) {
      return name
    }
  }
}

function givenBy(above: Token | undefined): Block['given'] {
  const text = above?.type === 'html_block' ? /^<!-- given (.*) -->\s*$/s.exec(above.content)?.[1] : undefined
  return (text ?? '').split(';').flatMap((part) => {
    const [, name, type] = /^\s*(\w+): (.*)$/s.exec(part) ?? []
    return name === undefined || type === undefined ? [] : [[name, type.trim()] as const]
  })
}

function listed(): string[] {
  const options = ['ls-files', '--cached', '--others', '--exclude-standard', '--', '*.md']
  const names = execFileSync('git', options, { cwd: ROOT, encoding: 'utf8' }).split('\n')
  return names.filter((name) => name !== '' && existsSync(join(ROOT, name))).sort()
}

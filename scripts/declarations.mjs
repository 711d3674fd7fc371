/**
 * Removes from `dist/` the declarations that no entry point reaches: whole files, and single declarations of
 * the others. Compilers and editors see the same package.
 *
 * The files are those of tsc, in which each statement begins in the first column, after its comment.
 */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'

const STATEMENT = /^(?:import|export|declare|type|interface)\b/
const DECLARED =
  /^(?:export )?(?:declare )?(?:abstract )?(?:class|const|let|function|interface|type|namespace|enum) (\w+)/
/** Statements that name nothing: what extends other modules, `export {}`, and imports without names. */
const NAMELESS = /^(?:declare (?:module|global)\b|export \{\s*\};|import ['"])/

/**
 * @param {string} folder The folder of the declarations.
 * @param {readonly string[]} entries The declarations of the entry points.
 */
export function pruneDeclarations(folder, entries) {
  const reached = new Reached()
  for (const entry of entries) {
    reached.addAll(resolve(entry))
  }
  for (const name of readdirSync(folder, { recursive: true })) {
    const file = join(resolve(folder), name)
    if (/\.d\.m?ts$/.test(file)) {
      const text = reached.textOf(file)
      text === undefined ? rmSync(file) : writeFileSync(file, text)
    }
  }
}

/** The statements of each file, with the names that entry points reach. The others are dropped. */
class Reached {
  #files = new Map()

  /** The text of a file without the rest; `undefined` if nothing of it is reached. */
  textOf(file) {
    const { head, statements, kept } = this.#files.get(file) ?? {}
    return statements && head + statements.map((one) => (kept.has(one) ? printed(one, kept.get(one)) : '')).join('')
  }

  /** Adds all that a file exports. */
  addAll(file) {
    for (const statement of this.#read(file).statements) {
      if (/^export\b/.test(statement.code)) {
        this.#add(file, statement, statement.names)
      }
    }
  }

  #read(file) {
    const known = this.#files.get(file)
    if (known !== undefined) {
      return known
    }
    const read = { ...parsed(readFileSync(file, 'utf8')), kept: new Map() }
    this.#files.set(file, read)
    for (const statement of read.statements.filter(({ code }) => code === '' || NAMELESS.test(code))) {
      this.#add(file, statement, [])
    }
    return read
  }

  /** Adds what a name means in a file; `isExport` if another file asks for it. */
  #addName(file, name, isExport) {
    for (const statement of this.#read(file).statements) {
      const names = statement.names.filter(({ as }) => as === name)
      if (statement.declares === name || names.length > 0) {
        this.#add(file, statement, names)
      } else if (statement.isStar && isExport) {
        this.#add(file, statement, [])
      }
    }
  }

  #add(file, statement, names) {
    const { kept } = this.#read(file)
    const before = kept.get(statement)
    const added = names.filter((name) => !before?.has(name))
    if (before !== undefined && added.length === 0) {
      return
    }
    kept.set(statement, new Set([...(before ?? []), ...added]))
    if (statement.from !== undefined) {
      this.#follow(file, statement, added)
      return
    }
    const words = before === undefined ? statement.code.match(/[A-Za-z_$][\w$]*/g) : []
    // Names in the comments of a declaration are links for editors.
    const links = [...statement.text.matchAll(/\{@link (\w+)/g)].map(([, name]) => name)
    for (const name of new Set([...(words ?? []), ...links, ...added.map(({ name }) => name)])) {
      this.#addName(file, name, false)
    }
    for (const [, from, name] of statement.code.matchAll(/import\(['"](\.[^'"]+)['"]\)\.(\w+)/g)) {
      this.#addName(declarationsAt(file, from), name, true)
    }
  }

  #follow(file, { from, isStar }, names) {
    const target = declarationsAt(file, from)
    if (target === undefined) {
      return
    }
    if (isStar || names.some(({ name }) => name === '*')) {
      this.addAll(target)
    }
    for (const { name } of names) {
      this.#addName(target, name, true)
    }
  }
}

/** The declarations that a relative import means; `undefined` for a package. */
function declarationsAt(file, from) {
  if (!from.startsWith('.')) {
    return undefined
  }
  const target = resolve(dirname(file), from.replace(/\.(m?)js$/, '.d.$1ts'))
  if (!existsSync(target)) {
    throw new Error(`${file} imports ${from}, which has no declarations`)
  }
  return target
}

/** The statements of a file, with the comments before them. `head` is what precedes the first one. */
function parsed(text) {
  const [head] = /^(?:\/\/\/.*\n)*/.exec(text)
  const statements = []
  let [comment, lines, isComment] = [[], [], false]
  const end = () => {
    if (comment.length + lines.length > 0) {
      statements.push(statementOf(comment, lines))
    }
    ;[comment, lines] = [[], []]
  }
  for (const line of text.slice(head.length).trimEnd().split('\n')) {
    if (isComment || line.startsWith('/*')) {
      if (!isComment) {
        end()
      }
      comment.push(line)
      isComment = !line.endsWith('*/')
    } else {
      // The comment of a file belongs to no declaration.
      if ((STATEMENT.test(line) && lines.length > 0) || /@(module|packageDocumentation)\b/.test(comment.join('\n'))) {
        end()
      }
      lines.push(line)
    }
  }
  end()
  return { head, statements }
}

function statementOf(comment, lines) {
  const code = lines.join('\n')
  const text = [...comment, ...lines].map((line) => `${line}\n`).join('')
  const [, keyword, list, from] = /^(import|export)\s+([^;]*?)\s+from ['"]([^'"]+)['"]/.exec(code) ?? []
  const isStar = keyword === 'export' && /^(type )?\*$/.test(list)
  const own = /^export (\{[^}]+\});/.exec(code)?.[1]
  const names = isStar ? [] : namesIn(list ?? own ?? '')
  const declares = /^export (default|=) /.test(code) ? 'default' : DECLARED.exec(code)?.[1]
  return { text, code, declares: from === undefined && own === undefined ? declares : undefined, from, isStar, names }
}

/** The names of an import or export: `name` in the other file, `as` in this one, and the words of both. */
function namesIn(list) {
  const [before, braced = ''] = list.replace(/^type\b/, '').split(/[{}]/)
  const single = before.replace(',', '').trim()
  const named = braced.split(',').flatMap((part) => {
    const words = part.trim()
    const [name, as = name] = words.replace(/^type /, '').split(/\s+as\s+/)
    return words === '' ? [] : [{ name, as, words }]
  })
  if (single === '') {
    return named
  }
  return [
    { name: single.startsWith('*') ? '*' : 'default', as: single.replace(/^\* as /, ''), words: single },
    ...named,
  ]
}

/** A statement with the kept ones of its names. */
function printed({ text, names }, kept) {
  return names.length === kept.size ? text : text.replace(/\{[^{}]*\}(?= from )/, () => bracesOf(kept))
}

function bracesOf(kept) {
  return `{ ${[...kept].map(({ words }) => words).join(', ')} }`
}

/**
 * Builds the site of the documentation: `npm run docs:site`.
 *
 *     node docs/site/build.mjs [--out DIR] [--base PATH] [--repository URL]
 *
 * --out         the output folder; default: target/site
 * --base        the path of the site on its host; default: /
 * --repository  the URL of the sources, for links to files that are no pages. Without it these links
 *               become plain text
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, posix, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const HERE = dirname(fileURLToPath(import.meta.url))
const ROOT = resolve(HERE, '..', '..')

const { values: options } = parseArgs({
  options: {
    out: { type: 'string', default: join(ROOT, 'target', 'site') },
    base: { type: 'string', default: '/' },
    repository: { type: 'string' },
  },
})

const out = resolve(options.out)
const staged = join(ROOT, 'target', 'site-pages')

/** The pages of the site by their files. */
const PAGES = new Map([
  ['README.md', 'start.md'],
  ['docs/README.md', 'index.md'],
  ['ARCHITECTURE.md', 'architecture.md'],
  ['CHANGELOG.md', 'changelog.md'],
  ['.github/CONTRIBUTING.md', 'contributing.md'],
  ['.github/SECURITY.md', 'security.md'],
  ...['tests/benches', 'tests/chaos', 'examples'].map((folder) => [`${folder}/README.md`, `${basename(folder)}.md`]),
  ...pagesIn('docs', ''),
  ...pagesIn('docs/middleware', 'middleware/'),
  ...pagesIn('docs/design', 'design/'),
])

stage()
for (const [tool, ...words] of [
  [join(HERE, 'node_modules', 'vitepress', 'bin', 'vitepress.js'), 'build', HERE],
  [
    join(ROOT, 'docs', 'node_modules', 'typedoc', 'bin', 'typedoc'),
    '--options',
    'docs/typedoc.json',
    '--out',
    join(out, 'api'),
  ],
  [join(ROOT, 'examples', 'playground', 'build.mjs'), join(out, 'playground'), '--docs', '../*.html'],
]) {
  execFileSync('node', [tool, ...words], { cwd: ROOT, stdio: 'inherit', env: environment() })
}
console.log(`${relative(ROOT, out)} has the site`)

/** The pages of a folder. */
function pagesIn(folder, target) {
  const files = readdirSync(join(ROOT, folder)).filter((file) => file.endsWith('.md'))
  return files
    .filter((file) => `${folder}/${file}` !== 'docs/README.md')
    .map((file) => [`${folder}/${file}`, target + file.replace('README.md', 'index.md')])
}

/** Writes the pages, with the links of the site, and their pictures. */
function stage() {
  rmSync(staged, { recursive: true, force: true })
  rmSync(out, { recursive: true, force: true })
  for (const [file, page] of PAGES) {
    const target = join(staged, page)
    mkdirSync(dirname(target), { recursive: true })
    writeFileSync(target, siteText(readFileSync(join(ROOT, file), 'utf8'), file, page))
  }
  cpSync(join(ROOT, 'docs', 'plots'), join(staged, 'plots'), {
    recursive: true,
    filter: (path) => !path.endsWith('.mjs'),
  })
}

/** The text of a page: without comments, and with links to other pages or to the sources. */
function siteText(markdown, file, page) {
  const blocks = markdown.replace(/<!--[\s\S]*?-->\n?/g, '').split(/(^```[\s\S]*?^```$)/m)
  const links = /(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)]*)?\)/g
  return blocks
    .map((block, index) => {
      const isCode = index % 2 === 1
      return isCode
        ? block
        : block.replace(links, (_, image, text, target, anchor = '') => {
            return link({ image, text: text.replace(links, '$2'), target, anchor }, file, page)
          })
    })
    .join('')
}

function link({ image, text, target, anchor }, file, page) {
  const path = posix.join(posix.dirname(file), decodeURI(target)).replace(/\/$/, '')
  if (path.startsWith('docs/plots/')) {
    const plot = posix.relative(posix.dirname(page), path.replace('docs/', ''))
    return `${image}[${text}](${plot.startsWith('.') ? plot : `./${plot}`})`
  }
  const linked = PAGES.get(path) ?? PAGES.get(`${path}/README.md`)
  if (linked !== undefined) {
    const from = posix.relative(posix.dirname(page), linked)
    return `[${text}](${from.startsWith('.') ? from : `./${from}`}${anchor})`
  }
  return options.repository === undefined ? text : `[${text}](${options.repository}/blob/main/${path}${anchor})`
}

function environment() {
  return {
    ...process.env,
    TOLLGATE_PAGES: staged,
    TOLLGATE_SITE: out,
    TOLLGATE_CACHE: join(ROOT, 'target', 'vitepress'),
    TOLLGATE_BASE: options.base,
  }
}

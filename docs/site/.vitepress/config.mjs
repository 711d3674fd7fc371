// The site of the documentation. `build.mjs` has put its pages into TOLLGATE_PAGES.
import { defineConfig } from 'vitepress'

const base = process.env.TOLLGATE_BASE ?? '/'

/** A page of the sidebar. */
const page = (text, link) => ({ text, link: `/${link}` })

/** Outside of the pages: the reference and the playground, which the build adds. */
const linked = (text, link) => ({ text, link: `/${link}/index.html`, target: '_self' })

/** Renders the empty head of a table's column as an ordinary cell, which screen readers can pass over. */
function plainEmptyHeads(rules) {
  for (const [rule, offset, tag] of [
    ['th_open', 1, '<td>'],
    ['th_close', -1, '</td>'],
  ]) {
    rules[rule] = (tokens, index, options, _, renderer) => {
      return tokens[index + offset].content === '' ? tag : renderer.renderToken(tokens, index, options)
    }
  }
}

/** Lets the keyboard scroll a plot that is wider than the screen. */
function focusablePlots(markdown) {
  markdown.core.ruler.push('focusable-plots', ({ tokens }) => {
    tokens.forEach((token, index) => {
      if (token.children?.some(({ type }) => type === 'image')) {
        tokens[index - 1].attrSet('tabindex', '0')
      }
    })
  })
}

export default defineConfig({
  title: 'tollgate',
  description: 'Exact, atomic rate limiting for Node.js, with an engine in Rust',
  lang: 'en',
  base,
  head: [['link', { rel: 'icon', href: `${base}playground/icon.svg` }]],
  srcDir: process.env.TOLLGATE_PAGES,
  outDir: process.env.TOLLGATE_SITE,
  cacheDir: process.env.TOLLGATE_CACHE,
  cleanUrls: false,
  transformPageData(page) {
    if (page.relativePath === 'performance.md') {
      page.frontmatter.pageClass = 'wide-plots'
    }
  },
  // The reference and the playground are added after the pages.
  ignoreDeadLinks: [/^\/(api|playground)\//],
  markdown: {
    html: false,
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    config(markdown) {
      plainEmptyHeads(markdown.renderer.rules)
      focusablePlots(markdown)
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [page('Guide', 'getting-started'), linked('API', 'api'), linked('Playground', 'playground')],
    sidebar: [
      {
        text: 'Begin',
        items: [
          page('Why tollgate', 'start'),
          page('Getting started', 'getting-started'),
          page('Choosing', 'choosing'),
          page('All pages by task', ''),
          page('Examples', 'examples'),
        ],
      },
      {
        text: 'Limit',
        items: [
          page('Algorithms', 'algorithms'),
          page('Middleware', 'middleware'),
          page('Operations', 'operations'),
          page('Reservations', 'reservations'),
          page('Permits', 'permits'),
          page('Calls that may be repeated', 'repeated-calls'),
          page('Several limits', 'several-limits'),
          page('Tiers and changing limits', 'changing-limits'),
          page('LLM budgets', 'llm-budgets'),
          page('The AI SDK', 'ai-sdk'),
          page('Estimates', 'estimates'),
          page('Outgoing calls', 'client'),
        ],
      },
      {
        text: 'Run',
        items: [
          page('Redis', 'redis'),
          page('Failure modes', 'failure-modes'),
          page('Local decisions', 'local-decisions'),
          page('The embedded store', 'embedded-store'),
          page('Shutdown', 'shutdown'),
          page('Metrics', 'metrics'),
          page('Command line', 'command-line'),
          page('Testing your service', 'testing-your-service'),
          page('Platforms', 'platforms'),
          page('WebAssembly', 'webassembly'),
        ],
      },
      {
        text: 'Know',
        items: [
          page('Promises', 'promises'),
          page('Performance', 'performance'),
          page('Migrating', 'migrating'),
          page('How it is tested', 'testing'),
          page('Design', 'design/'),
          page('Changelog', 'changelog'),
        ],
      },
    ],
  },
})

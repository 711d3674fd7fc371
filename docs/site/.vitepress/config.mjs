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

/** The anchor of a heading on GitHub, which keeps the underscores of names. */
const githubAnchor = (text) =>
  text
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '')
    .replace(/ /g, '-')

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
    if (/^(performance|fault-report)/.test(page.relativePath)) {
      page.frontmatter.pageClass = 'wide-plots'
    }
  },
  // The reference and the playground are added after the pages.
  ignoreDeadLinks: [/^\/(api|playground)\//],
  markdown: {
    html: false,
    // The anchors of GitHub, so that links work in both places.
    anchor: { slugify: githubAnchor },
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
        text: 'Tutorial',
        items: [page('Why tollgate', 'start'), page('Getting started', 'getting-started'), page('All pages', '')],
      },
      {
        text: 'Recipes',
        items: [
          page('Choosing', 'choosing'),
          page('Behind a proxy', 'behind-a-proxy'),
          page('Express', 'middleware/express'),
          page('Fastify', 'middleware/fastify'),
          page('Hono, Web and Next.js', 'middleware/fetch'),
          page('SvelteKit', 'middleware/sveltekit'),
          page('React Router', 'middleware/react-router'),
          page('Astro', 'middleware/astro'),
          page('Elysia', 'middleware/elysia'),
          page('Nest', 'middleware/nest'),
          page('tRPC', 'middleware/trpc'),
          page('GraphQL', 'middleware/graphql'),
          page('Socket.IO', 'middleware/socket-io'),
          page('Several limits', 'several-limits'),
          page('Tiers and changing limits', 'changing-limits'),
          page('LLM budgets', 'llm-budgets'),
          page('The AI SDK', 'ai-sdk'),
          page('BullMQ', 'bullmq'),
          page('OpenAI, Anthropic, LangChain', 'model-sdks'),
          page('MCP', 'mcp'),
          page('Outgoing calls', 'client'),
          page('Calls that may be repeated', 'repeated-calls'),
          page('Redis by service', 'hosting'),
          page('Lambda and Workers', 'serverless'),
          page('Bundlers', 'bundlers'),
          page('Testing your service', 'testing-your-service'),
          page('Shutdown', 'shutdown'),
          page('Migrating', 'migrating'),
          page('Troubleshooting', 'troubleshooting'),
          page('Questions', 'questions'),
          page('Examples', 'examples'),
        ],
      },
      {
        text: 'Reference',
        items: [
          page('Algorithms', 'algorithms'),
          page('Middleware', 'middleware'),
          page('Options of the middleware', 'middleware/options'),
          page('Keys of requests', 'middleware/keys'),
          page('Response headers', 'middleware/headers'),
          page('Refusals', 'middleware/refusals'),
          page('Operations', 'operations'),
          page('Reservations', 'reservations'),
          page('Permits', 'permits'),
          page('Estimates', 'estimates'),
          page('Redis', 'redis'),
          page('The embedded store', 'embedded-store'),
          page('Local decisions', 'local-decisions'),
          page('WebAssembly', 'webassembly'),
          page('Metrics', 'metrics'),
          page('Command line', 'command-line'),
          page('Failure modes', 'failure-modes'),
          page('Mistakes', 'mistakes'),
          page('Platforms', 'platforms'),
          page('Servers', 'servers'),
          page('Changelog', 'changelog'),
        ],
      },
      {
        text: 'Reasons',
        items: [
          page('Promises', 'promises'),
          page('Performance', 'performance'),
          page('All figures', 'performance-figures'),
          page('Fault report', 'fault-report'),
          page('How it is tested', 'testing'),
          page('Design', 'design/'),
          page('Architecture', 'architecture'),
        ],
      },
    ],
  },
})

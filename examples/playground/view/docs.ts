/** Links to the documentation. */

declare const DOCS: string

/**
 * The address of a page, such as `algorithms#gcra`. `examples/playground/build.mjs` sets where the pages are;
 * without them there is no link.
 */
export function docsLink(page: string): string | undefined {
  const [name = '', fragment] = page.split('#')
  return DOCS === ''
    ? undefined
    : `${DOCS.replace('*', name)}${fragment === undefined ? '' : `#${fragment.toLowerCase()}`}`
}

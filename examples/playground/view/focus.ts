/** Keeps the focus of the keyboard when its element goes away. */

/** Focuses an element once the page shows it. */
export function focusLater(id: string): void {
  requestAnimationFrame(() => setTimeout(() => document.getElementById(id)?.focus()))
}

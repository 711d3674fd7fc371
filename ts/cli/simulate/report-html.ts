import type { Report } from './report.js'
export function htmlReport(report: Report): string {
  return String(report.lines)
}

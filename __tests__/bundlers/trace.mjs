// Prints the files that a program needs, as Next.js and Vercel find them, relative to the current folder:
//
//     node trace.mjs PROGRAM
import { nodeFileTrace } from '@vercel/nft'

// A dependency of Express has another file for this condition, which Node.js 20.19 and later have.
const conditions = ['node', ...(process.features.require_module ? ['module-sync'] : [])]
const { fileList } = await nodeFileTrace([process.argv[2]], { base: process.cwd(), conditions })
console.log(JSON.stringify([...fileList]))

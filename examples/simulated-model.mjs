// Simulates the client of a model, which takes an AbortSignal: it repeats the words of the prompt.
import { setTimeout as sleep } from 'node:timers/promises'

export async function* model(prompt, maxTokens, signal) {
  const words = prompt.split(' ')
  for (let count = 0; count < maxTokens; count++) {
    await sleep(5, undefined, { signal })
    const word = words[count % words.length]
    if (word === 'FAIL') throw new Error('the model failed')
    if (word === 'STOP') return
    yield `${word} `
  }
}

import { Events } from '../../ts/platform/events.js'
import { timers } from '../../ts/platform/timers.js'

interface TestEvents {
  readonly said: string
  readonly done: number
}

test('all listeners receive each event, in order, until they are removed', () => {
  const events = new Events<TestEvents>()
  const received: string[] = []
  const listen = (text: string) => received.push(text)
  const off = events.on('said', listen)
  events.on('said', listen)
  events.emit('said', 'a')
  off()
  off()
  events.emit('said', 'b')
  events.emit('done', 1)
  expect(received).toEqual(['a', 'a', 'b'])
})

test('a listener removed during an event does not receive that event', () => {
  const events = new Events<TestEvents>()
  const received: string[] = []
  const off = events.on('said', (text) => {
    received.push(text)
    off()
  })
  events.on('said', (text) => received.push(text))
  events.emit('said', 'a')
  events.emit('said', 'b')
  expect(received).toEqual(['a', 'a', 'b'])
})

test('a listener that throws does not stop the others: its error becomes an uncaught exception', () => {
  const later = jest.spyOn(timers, 'setImmediate')
  try {
    const events = new Events<TestEvents>()
    const received: string[] = []
    const error = new Error('a listener throws')
    later.mockReturnValueOnce({} as NodeJS.Immediate)
    events.on('said', () => {
      throw error
    })
    events.on('said', (text) => received.push(text))
    events.emit('said', 'a')
    expect(received).toEqual(['a'])
    const [thrower] = later.mock.calls[0] as [() => void]
    expect(thrower).toThrow(error)
  } finally {
    later.mockRestore()
  }
})

import { Events } from '../../ts/platform/events.js'
import { timers } from '../../ts/platform/timers.js'

interface Heard {
  readonly said: string
  readonly done: number
}

test('all who listen hear an event, in order, until they do not want to any more', () => {
  const events = new Events<Heard>()
  const heard: string[] = []
  const listen = (text: string) => heard.push(text)
  const off = events.on('said', listen)
  events.on('said', listen)
  events.emit('said', 'a')
  off()
  off()
  events.emit('said', 'b')
  events.emit('done', 1)
  expect(heard).toEqual(['a', 'a', 'b'])
})

test('who ends listening while others are told is told nothing more', () => {
  const events = new Events<Heard>()
  const heard: string[] = []
  const off = events.on('said', (text) => {
    heard.push(text)
    off()
  })
  events.on('said', (text) => heard.push(text))
  events.emit('said', 'a')
  events.emit('said', 'b')
  expect(heard).toEqual(['a', 'a', 'b'])
})

test('a listener that throws fails alone, as an uncaught exception', () => {
  const later = jest.spyOn(timers, 'setImmediate')
  try {
    const events = new Events<Heard>()
    const heard: string[] = []
    const error = new Error('a listener throws')
    later.mockReturnValueOnce({} as NodeJS.Immediate)
    events.on('said', () => {
      throw error
    })
    events.on('said', (text) => heard.push(text))
    events.emit('said', 'a')
    expect(heard).toEqual(['a'])
    const [thrower] = later.mock.calls[0] as [() => void]
    expect(thrower).toThrow(error)
  } finally {
    later.mockRestore()
  }
})

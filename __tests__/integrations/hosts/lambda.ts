/** An instance of a Lambda function, with the runtime's API that it uses. It is frozen between its invocations. */
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from 'aws-lambda'
import { deferred } from '../../../ts/backends/redis/batching/deferred.js'
import { startProgram } from '../node.js'

export class Instance {
  readonly #server = createServer(async (request, response) => {
    if (request.method === 'GET') {
      this.#onPoll(response)
    } else {
      const result = (await json(request)) as APIGatewayProxyStructuredResultV2
      response.end(() => this.#onResult(result))
    }
  })
  #poll = deferred<ServerResponse>()
  #result = deferred<APIGatewayProxyStructuredResultV2>()
  #program: ReturnType<typeof startProgram> | undefined
  #invocations = 0

  static async start(file: string): Promise<Instance> {
    const instance = new Instance()
    const server = instance.#server
    // A frozen process does not notice that its server ends connections.
    server.keepAliveTimeout = 0
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const api = `http://127.0.0.1:${(server.address() as AddressInfo).port}/2018-06-01/runtime/invocation`
    instance.#program = startProgram(join(__dirname, 'container.mjs'), file, api)
    await instance.#poll.promise
    instance.freeze()
    return instance
  }

  freeze(): void {
    this.#program?.kill('SIGSTOP')
  }

  /** Lets the instance run until it has answered an event. */
  async invoke(event: APIGatewayProxyEventV2): Promise<APIGatewayProxyStructuredResultV2> {
    this.#program?.kill('SIGCONT')
    const response = await this.#poll.promise
    this.#poll = deferred()
    this.#result = deferred()
    response.setHeader('lambda-runtime-aws-request-id', String(this.#invocations++))
    response.end(JSON.stringify(event))
    const result = await this.#result.promise
    this.freeze()
    return result
  }

  async stop(): Promise<void> {
    if (this.#program !== undefined) {
      const exited = once(this.#program, 'exit')
      this.#program.kill('SIGKILL')
      await exited
    }
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #onPoll(response: ServerResponse): void {
    this.#poll.resolve(response)
  }

  #onResult(result: APIGatewayProxyStructuredResultV2): void {
    this.#result.resolve(result)
  }
}

/** An event of an HTTP API. */
export function eventOf(sourceIp: string): APIGatewayProxyEventV2 {
  const time = Date.now()
  return {
    version: '2.0',
    routeKey: '$default',
    rawPath: '/',
    rawQueryString: '',
    headers: { host: 'api.example.com', 'x-forwarded-for': sourceIp },
    requestContext: {
      accountId: '123456789012',
      apiId: 'api',
      domainName: 'api.example.com',
      domainPrefix: 'api',
      http: { method: 'GET', path: '/', protocol: 'HTTP/1.1', sourceIp, userAgent: 'tests' },
      requestId: String(time),
      routeKey: '$default',
      stage: '$default',
      time: new Date(time).toISOString(),
      timeEpoch: time,
    },
    isBase64Encoded: false,
  }
}

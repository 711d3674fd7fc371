import { BadRequestException, Body, Controller, Get, Post } from '@nestjs/common'
import { RateLimit } from 'tollgate/nest'

const words = ['toll', 'gate']

@Controller()
export class WordsController {
  @Get('words')
  list(): { words: readonly string[] } {
    return { words }
  }

  // It takes five units of the limit for all routes. Requests that fail validation are refunded.
  @RateLimit({ cost: 5, refundWhen: 'failed' })
  @Post('words')
  add(@Body() { word }: { readonly word?: string }): { added: string } {
    if (typeof word !== 'string') throw new BadRequestException('word is missing')
    words.push(word)
    return { added: word }
  }

  // Monitoring is not limited.
  @RateLimit(false)
  @Get('health')
  health(): string {
    return 'ok'
  }
}

import { BadRequestException, Body, Controller, Get, Post } from '@nestjs/common'
import { RateLimit } from 'tollgate/nest'

const words = ['toll', 'gate']

@Controller()
export class WordsController {
  @Get('words')
  list(): { words: readonly string[] } {
    return { words }
  }

  // Of one limit for everything it takes five units; what was refused by a check of ours is given back.
  @RateLimit({ cost: 5, refundWhen: 'failed' })
  @Post('words')
  add(@Body() { word }: { readonly word?: string }): { added: string } {
    if (typeof word !== 'string') throw new BadRequestException('word is missing')
    words.push(word)
    return { added: word }
  }

  // Monitoring asks often, and is not limited.
  @RateLimit(false)
  @Get('health')
  health(): string {
    return 'ok'
  }
}

-- Decodes the request for clients that carry only text: each byte is sent as the character with its
-- number, in UTF-8. Bytes from 128 on are two bytes in UTF-8. The table caches each decoded
-- character.
ARGV[1] = string.gsub(ARGV[1], '[\194\195].', setmetatable({}, {
  __index = function(bytes, character)
    local first, second = string.byte(character, 1, 2)
    bytes[character] = string.char(second + (first - 194) * 64)
    return bytes[character]
  end,
}))

-- For clients that carry text alone: a byte of what is asked and answered is the character of its number, in UTF-8.
-- Those from 128 on are two bytes there. How each is written is found out once in a script.
ARGV[1] = string.gsub(ARGV[1], '[\194\195].', setmetatable({}, {
  __index = function(bytes, character)
    local first, second = string.byte(character, 1, 2)
    bytes[character] = string.char(second + (first - 194) * 64)
    return bytes[character]
  end,
}))

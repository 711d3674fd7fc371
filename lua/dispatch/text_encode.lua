-- Encodes the reply as text, byte by byte as in text_decode.lua. Layout: '~', the time, the length
-- of each string in bytes after a ':', then ';' and the strings. The '~' keeps clients that parse
-- replies from reading the text as another value.
if reply.err then
  return reply
end
local head = { '~' .. string.format('%.0f', reply[1]) }
for number = 2, #reply do
  head[number] = #reply[number]
end
local text = string.gsub(table.concat(reply, '', 2), '[\128-\255]', setmetatable({}, {
  __index = function(characters, byte)
    local number = string.byte(byte)
    characters[byte] = number < 192 and '\194' .. byte or '\195' .. string.char(number - 64)
    return characters[byte]
  end,
}))
return table.concat(head, ':') .. ';' .. text

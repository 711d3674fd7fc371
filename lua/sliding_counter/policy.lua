-- Decodes a sliding counter's policy at `at` of `request`, and finds the open window.
local limit, window, after = struct.unpack('>dd', request, at)
local now_ms = (now - now % 1000) / 1000
local overlap = window - now_ms % window
local open_end = now_ms + overlap

// The default theme, with contrasts that reach WCAG AA everywhere.
import DefaultTheme from 'vitepress/theme'
import './style.css'

export default DefaultTheme

// Package pagetest holds the tests of the browser page, which run it in a real
// Chromium against a strict server of their own. It has no code besides tests.
package pagetest

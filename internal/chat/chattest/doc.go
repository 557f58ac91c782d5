// Package chattest holds what the tests of chat platforms share: a stand-in for
// the sessions, a blob store in memory, and [Conform], the suite that every
// platform's [chat.Poster] passes. Only tests import it.
package chattest

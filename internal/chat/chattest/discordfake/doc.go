// Package discordfake is a strict stand-in for Discord: the REST API that the
// adapter uses, versions 9 and 10, and the gateway. Only tests import it.
//
// It refuses what Discord refuses: wrong tokens, missing permissions and intents,
// bodies over the documented limits, nulls where the API's OpenAPI description
// has none, edits of others' messages and in archived threads, interactions that
// are answered late or twice, tokens older than 15 minutes, calls beyond a
// bucket. Unknown fields, which Discord ignores, are refused too unless
// [Options.TakeUnknown]: they are mistakes. What Discord takes though its
// documentation asks for something else is kept in [Server.Complaints].
//
// People act by [Server.Say], [Server.Edit], [Server.Slash], [Server.Click],
// [Server.Submit] and others; what they see is read by [Server.Messages],
// [Server.Ephemerals] and an [Interaction]'s methods. Time is moved on by
// [Server.Advance]. Faults are made with [Server.Fail] on the REST side and with
// the methods of [Server.Gateway] on the other.
//
// Numbers and names are from Discord's developer documentation: the pages that
// the comments name, and the OpenAPI description of its public API.
package discordfake

package slackfake

import (
	"bytes"
	"encoding/json"
	"net/url"
	"time"
	"unicode/utf8"
)

// View is a modal as a person sees it.
type View struct {
	ID, CallbackID, Private, Title, Submit, Hash, User string
	Blocks                                             json.RawMessage
	Closed                                             bool
	// Updates counts views.update and updates by response_action.
	Updates int
	// Below is the modal that this one was pushed onto.
	Below string
}

const (
	// maxView is the largest modal, in bytes, maxPushed the most that stand on one
	// another (docs.slack.dev/reference/methods/views.push).
	maxView   = 250_000
	maxPushed = 3
)

// triggerLives is how long a trigger may be used.
const triggerLives = 3 * time.Second

func (s *Server) newTrigger(user string) string {
	id := s.nextID("") + ".trigger"
	s.triggers[id] = &trigger{user: user, at: time.Now()}
	return id
}

func (s *Server) viewsOpen(a url.Values) (object, refusal) { return s.opened(a, false) }

// viewsPush opens a modal on the one in which the trigger came about.
func (s *Server) viewsPush(a url.Values) (object, refusal) { return s.opened(a, true) }

func (s *Server) opened(a url.Values, push bool) (object, refusal) {
	t := s.triggers[a.Get("trigger_id")]
	switch {
	case t == nil:
		return refuse("invalid_trigger_id")
	case t.used:
		return refuse("exchanged_trigger_id")
	case time.Since(t.at) > triggerLives:
		return refuse("expired_trigger_id")
	case push && (s.views[t.view] == nil || s.views[t.view].Closed):
		return refuse("not_found")
	case push && s.height(t.view) >= maxPushed:
		return refuse("push_limit_reached")
	}
	v, e := s.checkView([]byte(a.Get("view")))
	if e.Code != "" {
		return nil, e
	}
	t.used = true
	v.ID, v.User = s.nextID("V"), t.user
	if push {
		v.Below = t.view
	}
	s.views[v.ID] = v
	s.viewOrder = append(s.viewOrder, v.ID)
	return object{"view": v.object()}, refusal{}
}

// height is how many modals stand on one another up to this one.
func (s *Server) height(id string) int {
	n := 0
	for v := s.views[id]; v != nil; v = s.views[v.Below] {
		n++
	}
	return n
}

func (s *Server) viewsUpdate(a url.Values) (object, refusal) {
	old := s.views[a.Get("view_id")]
	if old == nil || old.Closed {
		return refuse("not_found")
	}
	if h := a.Get("hash"); h != "" && h != old.Hash {
		return refuse("hash_conflict")
	}
	if e := s.replace(old, []byte(a.Get("view"))); e.Code != "" {
		return nil, e
	}
	return object{"view": old.object()}, refusal{}
}

func (s *Server) replace(old *View, raw []byte) refusal {
	v, e := s.checkView(raw)
	if e.Code != "" {
		return e
	}
	v.ID, v.User, v.Updates, v.Below = old.ID, old.User, old.Updates+1, old.Below
	*old = *v
	return refusal{}
}

func (v *View) object() object {
	return object{
		"id": v.ID, "type": "modal", "callback_id": v.CallbackID, "private_metadata": v.Private, "hash": v.Hash,
		"title": object{"type": "plain_text", "text": v.Title}, "blocks": v.Blocks,
	}
}

// checkView checks a modal against the documented limits.
func (s *Server) checkView(raw []byte) (*View, refusal) {
	bad := func(why string) (*View, refusal) {
		_, e := invalid("invalid_arguments", why)
		return nil, e
	}
	if len(raw) > maxView {
		return nil, refusal{Code: "view_too_large"}
	}
	var n map[string]json.RawMessage
	if json.Unmarshal(raw, &n) != nil {
		return bad("view is no object")
	}
	known := map[string]bool{
		"type": true, "title": true, "blocks": true, "close": true, "submit": true, "private_metadata": true,
		"callback_id": true, "clear_on_close": true, "notify_on_close": true, "external_id": true,
	}
	for f := range n {
		if !known[f] {
			return bad("invalid additional property: " + f)
		}
	}
	c := &checker{fields: fields(), blockIDs: map[string]bool{}, actionIDs: map[string]bool{}}
	c.words(n["title"], "/view/title", 24, "plain_text")
	for _, f := range []string{"submit", "close"} {
		if n[f] != nil {
			c.words(n[f], "/view/"+f, 24, "plain_text")
		}
	}
	if c.fault != "" {
		return bad(c.fault)
	}
	if code, why := checkBlocks(n["blocks"], inModal); code != "" {
		return bad(why)
	}
	var list []node
	_ = json.Unmarshal(n["blocks"], &list) // checked above
	for _, b := range list {
		if b.text("type") == "input" && n["submit"] == nil {
			return bad("missing required field: submit [json-pointer:/view]")
		}
	}
	v := &View{
		CallbackID: node(n).text("callback_id"), Private: node(n).text("private_metadata"), Blocks: withBlockIDs(n["blocks"]),
		Hash: s.nextTS() + ".hash",
	}
	v.Title, v.Submit = textOf(n["title"]), textOf(n["submit"])
	if node(n).text("type") != "modal" || utf8.RuneCountInString(v.Private) > 3000 || utf8.RuneCountInString(v.CallbackID) > 255 {
		return bad("type must be modal, private_metadata at most 3,000 and callback_id at most 255 characters")
	}
	return v, refusal{}
}

func textOf(raw json.RawMessage) string {
	var n node
	if json.Unmarshal(raw, &n) != nil {
		return ""
	}
	return n.text("text")
}

// View is a modal by its ID.
func (s *Server) View(id string) (View, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.views[id]
	if !ok {
		return View{}, false
	}
	return *v, true
}

// Views are the modals that a person opened, in order, closed ones too.
func (s *Server) Views(user string) []View {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []View
	for _, id := range s.viewOrder {
		if v := s.views[id]; v.User == user {
			out = append(out, *v)
		}
	}
	return out
}

// Rewrite changes what an open modal carries, as somebody would who could forge it.
func (s *Server) Rewrite(viewID, private string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.views[viewID].Private = private
}

// RewriteHome changes what the buttons of a person's App Home carry.
func (s *Server) RewriteHome(user, from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.homes[user]
	v.Blocks = bytes.ReplaceAll(v.Blocks, []byte(from), []byte(to))
}

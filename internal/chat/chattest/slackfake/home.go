package slackfake

import (
	"encoding/json"
	"fmt"
	"net/url"
	"unicode/utf8"
)

// maxHome is the size of a view, in bytes.
const maxHome = 250_000

// viewsPublish takes a person's App Home.
func (s *Server) viewsPublish(a url.Values) (object, refusal) {
	if s.users[a.Get("user_id")] == nil {
		return refuse("user_not_found")
	}
	raw := []byte(a.Get("view"))
	var n node
	if json.Unmarshal(raw, &n) != nil || n.text("type") != "home" {
		return invalid("invalid_arguments", "view is no home")
	}
	for f := range n {
		switch f {
		case "type", "blocks", "private_metadata", "callback_id", "external_id":
		default:
			return invalid("invalid_arguments", "invalid additional property: "+f)
		}
	}
	if len(raw) > maxHome {
		return refuse("view_too_large")
	}
	if code, why := checkBlocks(n["blocks"], inHome); code != "" {
		return invalid("invalid_arguments", why)
	}
	if utf8.RuneCountInString(n.text("private_metadata")) > 3000 || utf8.RuneCountInString(n.text("callback_id")) > 255 {
		return invalid("invalid_arguments", "private_metadata or callback_id is too long")
	}
	v := &View{ID: "V0HOME" + a.Get("user_id"), CallbackID: n.text("callback_id"), User: a.Get("user_id"), Blocks: withBlockIDs(n["blocks"]), Hash: s.nextTS() + ".hash"}
	if old := s.homes[v.User]; old != nil {
		v.Updates = old.Updates + 1
	}
	s.homes[v.User] = v
	return object{"view": v.object()}, refusal{}
}

// Home is a person's App Home as it was last published; Updates counts those
// after the first.
func (s *Server) Home(user string) (View, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.homes[user]
	if !ok {
		return View{}, false
	}
	return *v, true
}

// OpenHome is a person looking at a tab of the app's home.
func (s *Server) OpenHome(user, tab string) *Delivery {
	return s.Raw(map[string]any{"type": "app_home_opened", "user": user, "channel": "D" + user[1:], "tab": tab})
}

// PressHome clicks the button of an App Home that has the action ID and whose
// value contains part.
func (s *Server) PressHome(user, action, part string) (Answer, error) {
	s.mu.Lock()
	v := s.homes[user]
	if v == nil {
		s.mu.Unlock()
		return Answer{}, fmt.Errorf("%s has no home", user)
	}
	e, block, ok := elementWith(v.Blocks, action, part)
	if !ok {
		s.mu.Unlock()
		return Answer{}, fmt.Errorf("the home has no %q with %q: %s", action, part, v.Blocks)
	}
	view := v.object()
	view["type"] = "home"
	payload := object{
		"type": "block_actions", "user": s.person(user), "team": object{"id": Team}, "api_app_id": AppID,
		"container": object{"type": "view", "view_id": v.ID}, "view": view, "trigger_id": s.newTrigger(user), "is_enterprise_install": s.opt.OrgWide,
		"actions": []object{{"action_id": action, "block_id": block, "action_ts": s.nextTS(), "type": "button", "value": e.text("value")}},
	}
	s.mu.Unlock()
	return s.ask("interactive", payload), nil
}

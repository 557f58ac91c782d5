package slackfake

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// spec is what holds for a method: calls a minute, scope, token.
type spec struct {
	tier  int
	scope string
	app   bool
	do    func(*Server, url.Values) (object, refusal)
}

// Tiers, in calls a minute.
const (
	tier2 = 20
	tier3 = 50
	tier4 = 100
)

func specs() map[string]spec {
	return map[string]spec{
		"agents.sessions.setStatus":    {tier: tier3, scope: "chat:write", do: (*Server).agentsSetStatus},
		"apps.connections.open":        {tier: tier3, app: true, do: (*Server).connectionsOpen},
		"auth.test":                    {do: (*Server).authTest},
		"chat.delete":                  {tier: tier3, scope: "chat:write", do: (*Server).chatDelete},
		"chat.postEphemeral":           {tier: tier4, scope: "chat:write", do: (*Server).chatPostEphemeral},
		"chat.postMessage":             {scope: "chat:write", do: (*Server).chatPostMessage},
		"chat.update":                  {tier: tier3, scope: "chat:write", do: (*Server).chatUpdate},
		"conversations.history":        {tier: tier3, do: (*Server).conversationsHistory},
		"conversations.info":           {tier: tier3, do: (*Server).conversationsInfo},
		"conversations.replies":        {tier: tier3, do: (*Server).conversationsReplies},
		"files.completeUploadExternal": {tier: tier4, scope: "files:write", do: (*Server).completeUpload},
		"files.info":                   {tier: tier4, scope: "files:read", do: (*Server).fileInfo},
		"files.getUploadURLExternal":   {tier: tier4, scope: "files:write", do: (*Server).uploadURL},
		"usergroups.list":              {tier: tier2, scope: "usergroups:read", do: (*Server).usergroupsList},
		"users.conversations":          {tier: tier3, do: (*Server).usersConversations},
		"users.info":                   {tier: tier4, scope: "users:read", do: (*Server).usersInfo},
		"views.open":                   {tier: tier4, do: (*Server).viewsOpen},
		"views.publish":                {tier: tier4, do: (*Server).viewsPublish},
		"views.push":                   {tier: tier4, do: (*Server).viewsPush},
		"views.update":                 {tier: tier4, do: (*Server).viewsUpdate},
	}
}

func (s *Server) authTest(url.Values) (object, refusal) {
	team := Team
	if s.opt.OrgWide {
		team = "E0FAKE0001"
	}
	return object{
		"url": "https://fake.slack.com/", "team": "Fake", "user": BotName, "team_id": team, "user_id": BotUser,
		"bot_id": BotID, "is_enterprise_install": s.opt.OrgWide,
	}, refusal{}
}

func (s *Server) usersInfo(a url.Values) (object, refusal) {
	u := s.users[a.Get("user")]
	if u == nil {
		return refuse("user_not_found")
	}
	return object{"user": object{
		"id": u.ID, "team_id": u.Team, "name": u.Name, "deleted": u.Deleted, "is_bot": u.Bot, "is_restricted": u.Restricted || u.UltraRestricted,
		"is_ultra_restricted": u.UltraRestricted, "is_stranger": u.Stranger, "profile": object{"display_name": u.Name, "real_name": u.Name},
	}}, refusal{}
}

func (s *Server) usergroupsList(a url.Values) (object, refusal) {
	var out []object
	for _, g := range s.groups {
		if g.Disabled && a.Get("include_disabled") != "true" {
			continue
		}
		o := object{"id": g.ID, "team_id": Team, "handle": g.Handle, "name": g.Handle, "is_usergroup": true, "date_delete": 0}
		if g.Disabled {
			o["date_delete"] = 1
		}
		if a.Get("include_users") == "true" {
			o["users"] = g.Users
		}
		out = append(out, o)
	}
	return object{"usergroups": out}, refusal{}
}

// kind is a channel's kind as scopes name it.
func (c *Channel) kind() string {
	switch {
	case c.IM:
		return "im"
	case c.MPIM:
		return "mpim"
	case c.Private:
		return "groups"
	}
	return "channels"
}

// reading is the channel of a call, if the bot may read it: a private one that
// it is no member of does not exist for it.
func (s *Server) reading(id, what string, member bool) (*Channel, refusal) {
	c := s.channels[id]
	if c == nil || (c.kind() != "channels" && !c.has(BotUser)) {
		return nil, refusal{Code: "channel_not_found"}
	}
	if scope := c.kind() + ":" + what; !slices.Contains(s.opt.Scopes, scope) {
		_, e := s.missing(scope)
		return nil, e
	}
	if member && !c.has(BotUser) {
		return nil, refusal{Code: "not_in_channel"}
	}
	return c, refusal{}
}

func (c *Channel) object() object {
	return object{
		"id": c.ID, "name": c.Name, "is_channel": c.kind() == "channels", "is_private": c.kind() != "channels", "is_im": c.IM,
		"is_mpim": c.MPIM, "is_archived": c.Archived, "is_member": c.has(BotUser),
	}
}

func (s *Server) conversationsInfo(a url.Values) (object, refusal) {
	c, e := s.reading(a.Get("channel"), "read", false)
	if e.Code != "" {
		return nil, e
	}
	return object{"channel": c.object()}, refusal{}
}

func (s *Server) usersConversations(a url.Values) (object, refusal) {
	kinds := map[string]string{"public_channel": "channels", "private_channel": "groups", "im": "im", "mpim": "mpim"}
	out := []object{}
	for t := range strings.SplitSeq(cmp.Or(a.Get("types"), "public_channel"), ",") {
		scope := kinds[t] + ":read"
		if !slices.Contains(s.opt.Scopes, scope) {
			return s.missing(scope)
		}
		for _, c := range s.channels {
			if c.kind() == kinds[t] && c.has(BotUser) && (a.Get("user") == "" || c.has(a.Get("user"))) && !(c.Archived && a.Get("exclude_archived") == "true") {
				out = append(out, c.object())
			}
		}
	}
	return object{"channels": out, "response_metadata": object{"next_cursor": ""}}, refusal{}
}

func (m *Message) object(metadata bool) object {
	o := object{"type": "message", "ts": m.TS, "user": m.User, "text": m.Text}
	if m.BotID != "" {
		o["bot_id"] = m.BotID
	}
	if m.ThreadTS != "" {
		o["thread_ts"] = m.ThreadTS
	}
	if m.Blocks != nil {
		o["blocks"] = m.Blocks
	}
	if m.EditedTS != "" {
		o["edited"] = object{"user": m.User, "ts": m.EditedTS}
	}
	if m.Attachments != nil {
		o["attachments"] = m.Attachments
	}
	if metadata && m.Metadata != nil {
		o["metadata"] = m.Metadata
	}
	var files []object
	for _, f := range m.Files {
		files = append(files, object{"id": f.ID, "name": f.Name, "title": f.Title, "size": len(f.Content)})
	}
	if files != nil {
		o["files"], o["subtype"] = files, "file_share"
		if m.BotID != "" {
			delete(o, "subtype")
		}
	}
	return o
}

func (s *Server) conversationsHistory(a url.Values) (object, refusal) {
	c, e := s.reading(a.Get("channel"), "history", true)
	if e.Code != "" {
		return nil, e
	}
	var list []*Message
	for _, m := range slices.Backward(s.messages[c.ID]) {
		if !m.Deleted && (m.ThreadTS == "" || m.ThreadTS == m.TS) && within(m.TS, a) {
			list = append(list, m)
		}
	}
	return page(list, nil, a)
}

func (s *Server) conversationsReplies(a url.Values) (object, refusal) {
	c, e := s.reading(a.Get("channel"), "history", true)
	if e.Code != "" {
		return nil, e
	}
	root := s.find(c.ID, a.Get("ts"))
	if root == nil || root.Deleted {
		return refuse("thread_not_found")
	}
	var list []*Message
	for _, m := range s.messages[c.ID] {
		if !m.Deleted && m.ThreadTS == root.TS && m.TS != root.TS && within(m.TS, a) {
			list = append(list, m)
		}
	}
	return page(list, root, a)
}

func within(ts string, a url.Values) bool {
	in := true
	if o := a.Get("oldest"); o != "" {
		in = in && (ts > o || (ts == o && a.Get("inclusive") == "1"))
	}
	if l := a.Get("latest"); l != "" {
		in = in && (ts < l || (ts == l && a.Get("inclusive") == "1"))
	}
	return in
}

// page answers a page of messages; a thread's root leads the first one.
func page(list []*Message, root *Message, a url.Values) (object, refusal) {
	limit, err := strconv.Atoi(cmp.Or(a.Get("limit"), "100"))
	if err != nil || limit < 1 || limit > 1000 {
		return refuse("invalid_limit")
	}
	skip := 0
	if c := a.Get("cursor"); c != "" {
		data, err := base64.StdEncoding.DecodeString(c)
		if err != nil {
			return refuse("invalid_cursor")
		}
		skip, _ = strconv.Atoi(string(data))
	}
	metadata := a.Get("include_all_metadata") == "true" || a.Get("include_all_metadata") == "1"
	if root != nil {
		list = append([]*Message{root}, list...)
	}
	list = list[min(skip, len(list)):]
	next := ""
	if len(list) > limit {
		list = list[:limit]
		next = base64.StdEncoding.EncodeToString([]byte(strconv.Itoa(skip + limit)))
	}
	out := []object{}
	for _, m := range list {
		out = append(out, m.object(metadata))
	}
	return object{"messages": out, "has_more": next != "", "response_metadata": object{"next_cursor": next}}, refusal{}
}

// writing is the channel of a call, if the bot may write there.
func (s *Server) writing(id string) (*Channel, refusal) {
	c := s.channels[id]
	switch {
	case c == nil || (c.kind() != "channels" && !c.has(BotUser)):
		return nil, refusal{Code: "channel_not_found"}
	case !c.has(BotUser):
		return nil, refusal{Code: "not_in_channel"}
	case c.Archived:
		return nil, refusal{Code: "is_archived"}
	}
	return c, refusal{}
}

// direct is the bot's direct message with a user, where a user's ID stands for a
// channel's, as in chat.postMessage only.
func (s *Server) direct(id string) string {
	u := s.users[id]
	if u == nil || u.Deleted || u.Bot {
		return id
	}
	im := "D" + id[1:]
	if s.channels[im] == nil {
		s.channels[im] = &Channel{ID: im, IM: true, Members: []string{id, BotUser}}
	}
	return im
}

// body checks text and blocks of a message.
func (s *Server) body(a url.Values, maxText int) (json.RawMessage, refusal) {
	text := a.Get("text")
	raw := a.Get("blocks")
	switch {
	case text == "" && (raw == "" || raw == "[]"):
		return nil, refusal{Code: "no_text"}
	case len(text) > maxText:
		return nil, refusal{Code: "msg_too_long"}
	case !utf8.ValidString(text):
		return nil, refusal{Code: "invalid_arguments"}
	case text == "":
		s.complain("a message with blocks has no fallback text: %.80s", raw)
	}
	if raw == "" {
		return nil, refusal{}
	}
	if code, why := checkBlocks([]byte(raw), inMessage); code != "" {
		_, e := invalid(code, why)
		return nil, e
	}
	return withBlockIDs([]byte(raw)), refusal{}
}

func checkMetadata(raw string) (json.RawMessage, bool) {
	if raw == "" {
		return nil, true
	}
	var m struct {
		Type    string                     `json:"event_type"`
		Payload map[string]json.RawMessage `json:"event_payload"`
	}
	d := json.NewDecoder(strings.NewReader(raw))
	d.DisallowUnknownFields()
	if d.Decode(&m) != nil || m.Type == "" || m.Payload == nil {
		return nil, false
	}
	return json.RawMessage(raw), true
}

func (s *Server) chatPostMessage(a url.Values) (object, refusal) {
	c, e := s.writing(s.direct(a.Get("channel")))
	if e.Code != "" {
		return nil, e
	}
	blocks, e := s.body(a, 40000)
	if e.Code != "" {
		return nil, e
	}
	metadata, ok := checkMetadata(a.Get("metadata"))
	if !ok {
		return refuse("invalid_metadata_format")
	}
	if a.Get("unfurl_links") != "false" || a.Get("unfurl_media") != "false" || a.Get("parse") != "none" {
		s.complain("a message may be unfurled or parsed: %.80s", a.Get("text"))
	}
	m := &Message{Channel: c.ID, TS: s.nextTS(), User: BotUser, BotID: BotID, Text: a.Get("text"), Blocks: blocks, Metadata: metadata, Args: a}
	if ts := a.Get("thread_ts"); ts != "" {
		root := s.find(c.ID, ts)
		if root == nil {
			return refuse("thread_not_found")
		}
		if root.ThreadTS != "" {
			root = s.find(c.ID, root.ThreadTS)
		}
		if root != nil && !root.Deleted {
			root.ThreadTS, m.ThreadTS = root.TS, root.TS
		}
	}
	s.messages[c.ID] = append(s.messages[c.ID], m)
	s.emitMessage(c, m)
	return object{"channel": c.ID, "ts": m.TS, "message": m.object(true)}, refusal{}
}

func (s *Server) chatUpdate(a url.Values) (object, refusal) {
	c, e := s.writing(a.Get("channel"))
	if e.Code != "" {
		return nil, e
	}
	m := s.find(c.ID, a.Get("ts"))
	switch {
	case m == nil || m.Deleted:
		return refuse("message_not_found")
	case m.BotID != BotID:
		return refuse("cant_update_message")
	}
	blocks, e := s.body(a, 4000)
	if e.Code != "" {
		return nil, e
	}
	metadata, ok := checkMetadata(a.Get("metadata"))
	if !ok {
		return refuse("invalid_metadata_format")
	}
	for id, old := range blockIDs(m.Blocks) {
		if now, same := blockIDs(blocks)[id]; same && !bytes.Equal(now, old) {
			s.complain("an update reuses block_id %q for other content", id)
		}
	}
	m.Text, m.Blocks, m.EditedTS = a.Get("text"), blocks, s.nextTS()
	if metadata != nil {
		m.Metadata = metadata
	}
	return object{"channel": c.ID, "ts": m.TS, "text": m.Text, "message": m.object(true)}, refusal{}
}

func (s *Server) chatDelete(a url.Values) (object, refusal) {
	c, e := s.writing(a.Get("channel"))
	if e.Code != "" {
		return nil, e
	}
	m := s.find(c.ID, a.Get("ts"))
	switch {
	case m == nil || m.Deleted:
		return refuse("message_not_found")
	case m.BotID != BotID:
		return refuse("cant_delete_message")
	}
	s.remove(m)
	return object{"channel": c.ID, "ts": m.TS}, refusal{}
}

func (s *Server) chatPostEphemeral(a url.Values) (object, refusal) {
	c, e := s.writing(a.Get("channel"))
	if e.Code != "" {
		return nil, e
	}
	if !c.has(a.Get("user")) {
		return refuse("user_not_in_channel")
	}
	blocks, e := s.body(a, 40000)
	if e.Code != "" {
		return nil, e
	}
	s.ephemerals = append(s.ephemerals, Ephemeral{Channel: c.ID, User: a.Get("user"), ThreadTS: a.Get("thread_ts"), Text: a.Get("text"), Blocks: blocks})
	return object{"message_ts": s.nextTS()}, refusal{}
}

func (s *Server) uploadURL(a url.Values) (object, refusal) {
	size, err := strconv.Atoi(a.Get("length"))
	if a.Get("filename") == "" || err != nil || size <= 0 {
		return refuse("invalid_arguments")
	}
	f := &File{ID: s.nextID("F"), Name: a.Get("filename")}
	s.files[f.ID] = f
	return object{"upload_url": s.srv.URL + "/upload/" + f.ID, "file_id": f.ID}, refusal{}
}

// upload takes a file's bytes, raw or as the only file of a multipart form.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	var data []byte
	var err error
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		if err = r.ParseMultipartForm(8 << 20); err == nil {
			for _, list := range r.MultipartForm.File {
				for _, h := range list {
					if f, ferr := h.Open(); ferr == nil {
						data, err = io.ReadAll(f)
						_ = f.Close()
					}
				}
			}
		}
	} else {
		data, err = io.ReadAll(r.Body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[r.PathValue("id")]
	if err != nil || f == nil {
		http.Error(w, "no such upload", http.StatusNotFound)
		return
	}
	f.Content = data
	fmt.Fprintf(w, "OK - %d", len(data))
}

func (s *Server) completeUpload(a url.Values) (object, refusal) {
	var list []struct{ ID, Title string }
	if json.Unmarshal([]byte(a.Get("files")), &list) != nil || len(list) == 0 {
		return refuse("invalid_arguments")
	}
	channel := a.Get("channel_id")
	if channel == "" {
		channel = a.Get("channels")
	}
	c, e := s.writing(channel)
	if e.Code != "" {
		return nil, e
	}
	m := &Message{Channel: c.ID, TS: s.nextTS(), User: BotUser, BotID: BotID, Text: a.Get("initial_comment")}
	var out []object
	for _, l := range list {
		f := s.files[l.ID]
		if f == nil {
			return refuse("file_not_found")
		}
		f.Title = l.Title
		m.Files = append(m.Files, *f)
		out = append(out, object{"id": f.ID, "title": f.Title})
	}
	if ts := a.Get("thread_ts"); ts != "" {
		root := s.find(c.ID, ts)
		if root == nil || root.Deleted {
			return refuse("thread_not_found")
		}
		root.ThreadTS, m.ThreadTS = root.TS, root.TS
	}
	s.messages[c.ID] = append(s.messages[c.ID], m)
	s.emitMessage(c, m)
	return object{"files": out}, refusal{}
}

// respond is a response_url: five answers within half an hour.
func (s *Server) respond(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Text     string          `json:"text"`
		Blocks   json.RawMessage `json:"blocks"`
		ThreadTS string          `json:"thread_ts"`
		Type     string          `json:"response_type"`
		Replace  bool            `json:"replace_original"`
	}
	err := json.NewDecoder(r.Body).Decode(&body)
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.responses[r.PathValue("id")]
	switch {
	case u == nil:
		http.Error(w, "no such url", http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, "invalid_payload", http.StatusBadRequest)
		return
	case u.uses >= 5 || time.Since(u.at) > 30*time.Minute:
		http.Error(w, "used_url", http.StatusNotFound)
		return
	}
	if len(body.Blocks) > 0 && string(body.Blocks) != "null" {
		if code, why := checkBlocks(body.Blocks, inMessage); code != "" {
			http.Error(w, code+": "+why, http.StatusBadRequest)
			return
		}
	}
	u.uses++
	if body.Type == "" || body.Type == "ephemeral" {
		s.ephemerals = append(s.ephemerals, Ephemeral{Channel: u.channel, User: u.user, ThreadTS: body.ThreadTS, Text: body.Text, Blocks: body.Blocks})
	} else {
		s.complain("a response_url was used for a public message")
	}
	_, _ = io.WriteString(w, "ok")
}

// fileInfo is files.info (docs.slack.dev/reference/methods/files.info).
func (s *Server) fileInfo(a url.Values) (object, refusal) {
	f := s.files[a.Get("file")]
	if f == nil {
		return refuse("file_not_found")
	}
	o := object{"id": f.ID, "name": f.Name, "title": f.Title, "size": len(f.Content), "mode": "hosted", "is_external": f.External}
	link := s.srv.URL + "/files-pri/" + f.ID
	if f.Link != "" {
		link = f.Link
	}
	o["url_private"], o["url_private_download"] = link, link
	if f.External {
		o["mode"] = "external"
		delete(o, "url_private_download")
	}
	return object{"file": o}, refusal{}
}

// download gives a file's content to who has the bot's token and may read files;
// others are sent to a page to sign in.
func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	f := s.files[r.PathValue("id")]
	may := r.Header.Get("Authorization") == "Bearer "+s.opt.BotToken && slices.Contains(s.opt.Scopes, "files:read")
	s.downloads = append(s.downloads, r.URL.Path)
	s.mu.Unlock()
	switch {
	case !may:
		http.Redirect(w, r, "/signin", http.StatusFound)
	case f == nil:
		http.NotFound(w, r)
	default:
		_, _ = w.Write(f.Content) // the client may be gone
	}
}

// Downloads are the paths of files whose content was asked for.
func (s *Server) Downloads() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.downloads)
}

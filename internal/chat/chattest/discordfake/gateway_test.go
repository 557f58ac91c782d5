package discordfake

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

// client is a bare connection to the gateway.
type client struct {
	t  *testing.T
	ws *websocket.Conn
}

type gotFrame struct {
	Op int             `json:"op"`
	T  string          `json:"t"`
	S  int             `json:"s"`
	D  json.RawMessage `json:"d"`
}

func dial(t *testing.T, s *Server) *client {
	t.Helper()
	ws, resp, err := websocket.DefaultDialer.DialContext(t.Context(), s.GatewayURL()+"?v=10&encoding=json", nil)
	require.NoError(t, err)
	_ = resp.Body.Close()
	t.Cleanup(func() { _ = ws.Close() })
	c := &client{t, ws}
	require.Equal(t, opHello, c.next().Op)
	return c
}

func (c *client) send(op int, d any) {
	c.t.Helper()
	require.NoError(c.t, c.ws.WriteJSON(object{"op": op, "d": d}))
}

func (c *client) next() gotFrame {
	c.t.Helper()
	require.NoError(c.t, c.ws.SetReadDeadline(time.Now().Add(wait5)))
	var f gotFrame
	require.NoError(c.t, c.ws.ReadJSON(&f))
	return f
}

func (c *client) closed() int {
	c.t.Helper()
	require.NoError(c.t, c.ws.SetReadDeadline(time.Now().Add(wait5)))
	for {
		if _, _, err := c.ws.ReadMessage(); err != nil {
			var e *websocket.CloseError
			require.ErrorAs(c.t, err, &e)
			return e.Code
		}
	}
}

func (c *client) identify(token string, intents int) {
	c.t.Helper()
	c.send(opIdentify, object{"token": token, "intents": intents, "properties": object{"os": "linux", "browser": "x", "device": "x"}})
}

// ready identifies and gives the session's ID.
func (c *client) ready(s *Server, intents int) string {
	c.t.Helper()
	c.identify(s.Token(), intents)
	f := c.next()
	require.Equal(c.t, "READY", f.T)
	var r struct {
		SessionID string `json:"session_id"`
	}
	require.NoError(c.t, json.Unmarshal(f.D, &r))
	if intents&intentGuilds != 0 {
		require.Equal(c.t, "GUILD_CREATE", c.next().T)
	}
	return r.SessionID
}

const usual = intentGuilds | intentGuildMessages | intentMessageContent

func TestIdentifyingWrongly(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{NoMessageContent: true})
	for code, do := range map[int]func(*client){
		4001: func(c *client) { c.send(99, nil) },
		4002: func(c *client) { require.NoError(t, c.ws.WriteMessage(websocket.TextMessage, []byte("{"))) },
		4003: func(c *client) { c.send(opPresence, object{}) },
		4004: func(c *client) { c.identify("other", usual) },
		4005: func(c *client) { c.ready(s, intentGuilds); c.identify(s.Token(), intentGuilds) },
		4013: func(c *client) { c.identify(s.Token(), 1<<30) },
		4014: func(c *client) { c.identify(s.Token(), usual) },
		4008: func(c *client) {
			for range sendLimit + 1 {
				c.send(opHeartbeat, nil)
			}
		},
	} {
		c := dial(t, s)
		do(c)
		require.Equal(t, code, c.closed())
	}
	c := dial(t, s)
	c.send(opIdentify, object{"token": s.Token(), "intents": 0, "properties": object{"os": x(maxPayload)}})
	require.Equal(t, 4002, c.closed())
}

func TestIntentsDecideWhatIsSent(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{NoMessageContent: true})
	s.AddChannel(Channel{ID: "2001", Overwrites: []Overwrite{{ID: BotUser, Member: true, Deny: ViewChannel}}})
	c := dial(t, s)
	c.ready(s, intentGuilds|intentGuildMessages)
	content := func() any {
		f := c.next()
		require.Equal(t, "MESSAGE_CREATE", f.T)
		var m map[string]any
		require.NoError(t, json.Unmarshal(f.D, &m))
		return m["content"]
	}
	s.Say(Ada, "2001", "unseen")
	hidden := s.Say(Ada, General, "hello")
	require.Empty(t, content())
	require.Empty(t, call(t, s, "GET", "/channels/"+General+"/messages/"+hidden, "").body["content"])
	s.Say(Ada, General, "hello <@"+BotUser+">")
	require.Equal(t, "hello <@"+BotUser+">", content(), "a mention is shown")
	require.Equal(t, 200, call(t, s, "POST", "/channels/"+General+"/messages", `{"content":"ours"}`).status)
	require.Equal(t, "ours", content())

	deaf := dial(t, s)
	deaf.ready(s, 0)
	s.Say(Ada, General, "hello")
	s.Gateway().Dispatch("TEST", nil)
	require.Equal(t, "TEST", deaf.next().T, "without intents nothing else comes")
}

func TestResuming(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{})
	c := dial(t, s)
	id := c.ready(s, usual)
	require.NoError(t, c.ws.Close())
	require.Eventually(t, func() bool { return s.Gateway().Connections() == 0 }, wait5, tick)
	missed := s.Say(Ada, General, "missed")
	c = dial(t, s)
	c.send(opResume, object{"token": s.Token(), "session_id": id, "seq": 2})
	f := c.next()
	require.Equal(t, "MESSAGE_CREATE", f.T)
	require.Contains(t, string(f.D), missed)
	require.Equal(t, "RESUMED", c.next().T)
	require.Equal(t, 1, s.Gateway().Resumes())

	s.Gateway().RefuseResume(true)
	s.Gateway().Cut()
	resume := func() gotFrame {
		c = dial(t, s)
		c.send(opResume, object{"token": s.Token(), "session_id": id, "seq": 4})
		return c.next()
	}
	f = resume()
	require.Equal(t, []any{opInvalidSession, "true"}, []any{f.Op, string(f.D)})
	require.Equal(t, "RESUMED", resume().T)

	require.NoError(t, c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""), time.Now().Add(time.Second)))
	require.Equal(t, 1000, c.closed())
	require.Eventually(t, func() bool { return len(s.Gateway().Closes()) > 0 && !s.Gateway().Ready() }, wait5, tick)
	f = resume()
	require.Equal(t, []any{opInvalidSession, "false"}, []any{f.Op, string(f.D)}, "1000 ends a session")
	c.ready(s, usual)
	require.Equal(t, 2, s.Gateway().Identifies())
}

func TestFaultsOfTheGateway(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{Heartbeat: 200 * time.Millisecond})
	g := s.Gateway()
	g.NextDrops(1)
	ws, resp, err := websocket.DefaultDialer.DialContext(t.Context(), s.GatewayURL()+"?v=10&encoding=json", nil)
	require.NoError(t, err)
	_ = resp.Body.Close()
	_, _, err = ws.ReadMessage()
	require.Error(t, err)
	g.NextReconnects(1)
	require.Equal(t, opReconnect, dial(t, s).next().Op)
	g.NextCloses(1, 4000)
	c := dial(t, s)
	c.identify(s.Token(), usual)
	require.Equal(t, 4000, c.closed())
	g.NextInvalid(1)
	c = dial(t, s)
	c.identify(s.Token(), usual)
	require.Equal(t, opInvalidSession, c.next().Op)
	c.ready(s, usual)

	c.send(opHeartbeat, 1)
	require.Equal(t, opAck, c.next().Op)
	g.Ask()
	require.Equal(t, opHeartbeat, c.next().Op)
	g.Mute(true)
	c.send(opHeartbeat, 1)
	g.Duplicate(true)
	s.Say(Ada, General, "twice")
	one, two := c.next(), c.next()
	require.Equal(t, []any{"MESSAGE_CREATE", "MESSAGE_CREATE", one.S + 1}, []any{one.T, two.T, two.S})
	g.Duplicate(false)
	g.Hold()
	first, second := s.Say(Ada, General, "1"), s.Say(Ada, General, "2")
	g.Release()
	require.Contains(t, string(c.next().D), second)
	require.Contains(t, string(c.next().D), first)
	g.Hold()
	s.Say(Ada, General, "lost")
	g.Lose()
	g.Invalidate(false)
	require.Equal(t, opInvalidSession, c.next().Op)
	id := c.ready(s, usual)
	g.Freeze()
	s.Say(Ada, General, "into the void")
	g.CloseWith(4000)
	require.Equal(t, 4000, c.closed())
	c = dial(t, s)
	c.send(opResume, object{"token": s.Token(), "session_id": id, "seq": 99})
	require.Equal(t, 4007, c.closed())
	require.Equal(t, 1, g.Identifies()-3)
}

func TestTheLibraryComesBack(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{})
	d := library(t, s)
	d.LogLevel = discordgo.LogError - 1
	h := listen(t, d)
	h.wait(t, "READY", 1)
	s.Gateway().Reconnect()
	h.wait(t, "RESUMED", 1)
	require.Equal(t, []int{1012}, s.Gateway().Closes(), "opcode 7 keeps the session")
	s.Gateway().Cut()
	s.Say(Ada, General, "hello")
	require.Eventually(t, func() bool { return s.Gateway().Ready() && s.Gateway().Opened() == 3 }, wait5, tick)
	require.Equal(t, "hello", h.wait(t, "MESSAGE_CREATE", 1)["content"])
}

func TestAnUnknownComponentEmptiesTheLibrarysMessage(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{})
	d := library(t, s)
	seen := make(chan *discordgo.MessageCreate, 1)
	d.AddHandler(func(_ *discordgo.Session, m *discordgo.MessageCreate) { seen <- m })
	h := listen(t, d)
	s.SayUnknown(Ada, General, "hello")
	require.Equal(t, "hello", h.wait(t, "MESSAGE_CREATE", 1)["content"])
	require.Empty(t, (<-seen).Content)
}

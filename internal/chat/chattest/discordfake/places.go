package discordfake

import (
	"slices"
	"time"
)

// Channel types (Channel, Channel Types).
const (
	GuildText     = 0
	Direct        = 1
	GuildVoice    = 2
	Announcement  = 5
	PublicThread  = 11
	PrivateThread = 12
	GuildForum    = 15
)

// User is a person or a bot.
type User struct {
	ID, Name string
	Bot      bool
}

// Role is a guild's role.
type Role struct {
	ID, Name    string
	Permissions Permissions
	// Mentionable roles may be pinged by everybody.
	Mentionable bool
	// Managed is the bot's own.
	Managed bool
}

// Member is a user in a guild.
type Member struct {
	User, Nick string
	Roles      []string
	// Pending is who the guild's screening has not let in, Guest who may only be where
	// they were invited to (Guild, Guild Member Flags: IS_GUEST).
	Pending, Guest bool
	joined         time.Time
}

func (m *Member) has(role string) bool { return slices.Contains(m.Roles, role) }

// Channel is a guild's channel or thread, or a person's direct channel with the
// bot, which has no guild and the person as its Owner.
type Channel struct {
	ID, Guild, Name string
	Type            int
	Overwrites      []Overwrite
	// Parent is a thread's channel; Owner who opened the thread.
	Parent, Owner    string
	Archived, Locked bool
	AutoArchive      int
	// ThreadMembers are the users who joined a thread.
	ThreadMembers []string
	archivedAt    time.Time
	created       time.Time
}

// autoArchive is after how many minutes without activity a thread is archived.
func (c *Channel) autoArchive() int {
	if c.AutoArchive == 0 {
		return 4320
	}
	return c.AutoArchive
}

// join makes a user a member of a thread.
func (c *Channel) join(user string) {
	if c.thread() && !slices.Contains(c.ThreadMembers, user) {
		c.ThreadMembers = append(c.ThreadMembers, user)
	}
}

func (c *Channel) thread() bool { return c.Type >= 10 && c.Type <= PrivateThread }

type guild struct {
	id, name, owner string
	roles           []*Role
	members         map[string]*Member
}

// member and role look up; no guild has none.
func (g *guild) member(user string) *Member {
	if g == nil {
		return nil
	}
	return g.members[user]
}

func (g *guild) role(id string) *Role {
	if g == nil {
		return nil
	}
	for _, r := range g.roles {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// AddUser adds or replaces a user.
func (s *Server) AddUser(u User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[u.ID] = &u
}

// AddGuild adds a guild, whose owner is nobody known, with its role @everyone.
// The bot is no member until [Server.AddMember].
func (s *Server) AddGuild(id, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guilds[id] = &guild{
		id: id, name: name, owner: "1000000000000000009", members: map[string]*Member{},
		roles: []*Role{{ID: id, Name: "@everyone", Permissions: Everyone}},
	}
}

// AddRole adds or replaces a role; the guild's ID as its ID is @everyone.
func (s *Server) AddRole(guildID string, r Role) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.guilds[guildID]
	g.roles = slices.DeleteFunc(g.roles, func(o *Role) bool { return o.ID == r.ID })
	g.roles = append(g.roles, &r)
}

// Screen says how a member is in a guild.
func (s *Server) Screen(guildID, user string, pending, guest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.guilds[guildID].members[user]
	m.Pending, m.Guest = pending, guest
}

// AddMember makes a user a member with these roles, or changes the roles.
func (s *Server) AddMember(guildID, user string, roles ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.guilds[guildID]
	fresh := g.members[user] == nil
	g.members[user] = &Member{User: user, Roles: roles, joined: s.now()}
	if fresh && user == BotUser {
		s.dispatch(dispatch{name: "GUILD_CREATE", intent: intentGuilds, data: s.guildCreate(g)})
		return
	}
	e := s.memberObject(g, g.members[user])
	e["guild_id"] = guildID
	if fresh {
		s.dispatch(dispatch{name: "GUILD_MEMBER_ADD", intent: intentGuildMembers, data: e})
	} else {
		s.dispatch(dispatch{name: "GUILD_MEMBER_UPDATE", intent: intentGuildMembers, data: e})
	}
}

// RemoveMember takes a user out of a guild; for the bot, it was kicked.
func (s *Server) RemoveMember(guildID, user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.guilds[guildID].members, user)
	if user == BotUser {
		s.dispatch(dispatch{name: "GUILD_DELETE", intent: intentGuilds, data: object{"id": guildID}})
		return
	}
	s.dispatch(dispatch{name: "GUILD_MEMBER_REMOVE", intent: intentGuildMembers, data: object{"guild_id": guildID, "user": s.userObject(user)}})
}

// AddChannel adds or replaces a channel or thread; without a guild it is in
// [Guild].
func (s *Server) AddChannel(c Channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Guild == "" && c.Type != Direct {
		c.Guild = Guild
	}
	c.created = s.now()
	s.channels[c.ID] = &c
}

// Channel is a channel or thread as it stands.
func (s *Server) Channel(id string) (Channel, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[id]
	if c == nil {
		return Channel{}, false
	}
	out := *c
	out.ThreadMembers = slices.Clone(c.ThreadMembers)
	return out, true
}

// Direct is a person's direct channel with the bot.
func (s *Server) Direct(user string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.direct(user).ID
}

func (s *Server) direct(user string) *Channel {
	for _, c := range s.channels {
		if c.Type == Direct && c.Owner == user {
			return c
		}
	}
	c := &Channel{ID: s.snowflake(), Type: Direct, Owner: user, created: s.now()}
	s.channels[c.ID] = c
	return c
}

// Threads are the threads of a channel in the order that they were opened.
func (s *Server) Threads(channel string) []Channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Channel
	for _, c := range s.channels {
		if c.thread() && c.Parent == channel {
			out = append(out, *c)
		}
	}
	slices.SortFunc(out, func(a, b Channel) int { return compareIDs(a.ID, b.ID) })
	return out
}

// SetThread archives or unarchives, locks or unlocks a thread, as a moderator
// would.
func (s *Server) SetThread(id string, archived, locked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[id]
	c.Archived, c.Locked, c.archivedAt = archived, locked, s.now()
	s.threadUpdated(c)
}

// RemoveChannel deletes a channel or thread with its messages.
func (s *Server) RemoveChannel(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropChannel(s.channels[id])
}

func (s *Server) dropChannel(c *Channel) {
	name := "CHANNEL_DELETE"
	if c.thread() {
		name = "THREAD_DELETE"
	}
	s.dispatch(dispatch{name: name, intent: intentGuilds, channel: c.ID, data: s.channelObject(c)})
	delete(s.channels, c.ID)
	delete(s.messages, c.ID)
}

func (s *Server) threadUpdated(c *Channel) {
	s.dispatch(dispatch{name: "THREAD_UPDATE", intent: intentGuilds, channel: c.ID, data: s.channelObject(c)})
}

// compareIDs orders snowflakes.
func compareIDs(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

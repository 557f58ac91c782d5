package discordfake

import "strconv"

// Permissions is a set of permission bits (Permissions, Bitwise Permission Flags).
type Permissions int64

// The permissions that the fake checks.
const (
	Administrator          Permissions = 1 << 3
	ManageChannels         Permissions = 1 << 4
	ManageGuild            Permissions = 1 << 5
	AddReactions           Permissions = 1 << 6
	ViewChannel            Permissions = 1 << 10
	SendMessages           Permissions = 1 << 11
	SendTTSMessages        Permissions = 1 << 12
	ManageMessages         Permissions = 1 << 13
	EmbedLinks             Permissions = 1 << 14
	AttachFiles            Permissions = 1 << 15
	ReadMessageHistory     Permissions = 1 << 16
	MentionEveryone        Permissions = 1 << 17
	UseApplicationCommands Permissions = 1 << 31
	ManageThreads          Permissions = 1 << 34
	CreatePublicThreads    Permissions = 1 << 35
	CreatePrivateThreads   Permissions = 1 << 36
	SendMessagesInThreads  Permissions = 1 << 38
)

// Invited are what a bot is commonly invited with: no moderator's rights.
const Invited = ViewChannel | SendMessages | EmbedLinks | AttachFiles | ReadMessageHistory | CreatePublicThreads | SendMessagesInThreads

// Everyone are what the role @everyone has in a new guild, of those above.
const Everyone = ViewChannel | SendMessages | EmbedLinks | AttachFiles | ReadMessageHistory | MentionEveryone | AddReactions |
	UseApplicationCommands | CreatePublicThreads | CreatePrivateThreads | SendMessagesInThreads

// inDirect are everybody's in a direct channel (Permissions, Implicit
// Permissions).
const inDirect = ViewChannel | SendMessages | EmbedLinks | AttachFiles | ReadMessageHistory | AddReactions | UseApplicationCommands

const everything Permissions = 1<<53 - 1

func (p Permissions) has(need Permissions) bool { return p&need == need }

// String is the decimal number, as the API writes permissions.
func (p Permissions) String() string { return strconv.FormatInt(int64(p), 10) }

// Overwrite changes a role's or a member's permissions in a channel.
type Overwrite struct {
	// ID is a role's, or a user's where Member is set.
	ID          string
	Member      bool
	Allow, Deny Permissions
}

// can is what a user may do in a channel; a thread has its parent's permissions
// (Permissions, Permission Overwrites; Threads, Permissions).
func (s *Server) can(user string, c *Channel) Permissions {
	g := s.guilds[c.Guild]
	switch {
	case c.Type == Direct && (user == BotUser || user == c.Owner):
		return inDirect
	case g == nil:
		return 0
	}
	base := s.canInGuild(user, g)
	if base.has(Administrator) || g.members[user] == nil {
		return base
	}
	if c.thread() {
		if parent := s.channels[c.Parent]; parent != nil {
			c = parent
		}
	}
	member := g.members[user]
	var allow, deny Permissions
	for _, o := range c.Overwrites {
		if !o.Member && o.ID == g.id {
			base = base&^o.Deny | o.Allow
		}
		if !o.Member && o.ID != g.id && member.has(o.ID) {
			allow, deny = allow|o.Allow, deny|o.Deny
		}
	}
	base = base&^deny | allow
	for _, o := range c.Overwrites {
		if o.Member && o.ID == user {
			base = base&^o.Deny | o.Allow
		}
	}
	return base
}

func (s *Server) canInGuild(user string, g *guild) Permissions {
	m := g.members[user]
	if m == nil {
		return 0
	}
	if g.owner == user {
		return everything
	}
	var p Permissions
	for _, r := range g.roles {
		if r.ID == g.id || m.has(r.ID) {
			p |= r.Permissions
		}
	}
	if p.has(Administrator) {
		return everything
	}
	return p
}

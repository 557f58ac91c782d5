package discordfake

import (
	"strings"
	"testing"

	"github.com/bwmarrin/discordgo"
	"github.com/stretchr/testify/require"
)

func TestTheLibraryTalksToIt(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{TakeUnknown: true})
	d := library(t, s)
	h := listen(t, d)
	require.Equal(t, BotUser, h.wait(t, "READY", 1)["user"].(map[string]any)["id"])
	require.Equal(t, Guild, h.wait(t, "GUILD_CREATE", 1)["id"])

	id := s.Say(Ada, General, "hello <@"+BotUser+">")
	m := h.wait(t, "MESSAGE_CREATE", 1)
	require.Equal(t, id, m["id"])
	require.Equal(t, Guild, m["guild_id"])
	require.Equal(t, "hello <@"+BotUser+">", m["content"])

	thread, err := d.MessageThreadStartComplex(General, id, &discordgo.ThreadStart{Name: "a task", AutoArchiveDuration: 1440})
	require.NoError(t, err)
	require.Equal(t, id, thread.ID)
	h.wait(t, "THREAD_CREATE", 1)

	sent, err := d.ChannelMessageSendComplex(thread.ID, &discordgo.MessageSend{
		Content: "working", AllowedMentions: &discordgo.MessageAllowedMentions{Parse: []discordgo.AllowedMentionType{}},
		Components: []discordgo.MessageComponent{discordgo.ActionsRow{Components: []discordgo.MessageComponent{
			discordgo.Button{Label: "Stop", CustomID: "stop:1", Style: discordgo.SecondaryButton},
		}}},
		Files: []*discordgo.File{{Name: "log.txt", ContentType: "text/plain", Reader: strings.NewReader("line")}},
	})
	require.NoError(t, err)
	text := "done"
	_, err = d.ChannelMessageEditComplex(&discordgo.MessageEdit{
		Channel: thread.ID, ID: sent.ID, Content: &text, AllowedMentions: &discordgo.MessageAllowedMentions{Parse: []discordgo.AllowedMentionType{}},
	})
	require.NoError(t, err)
	got := s.Messages(thread.ID)
	require.Len(t, got, 1)
	require.Equal(t, "done", got[0].Content)
	require.Equal(t, "line", string(got[0].Files[0].Content))
	require.Equal(t, []Button{{CustomID: "stop:1", Label: "Stop", Style: 2}}, got[0].Buttons())

	list, err := d.ChannelMessages(thread.ID, 100, "", "", "")
	require.NoError(t, err)
	require.Len(t, list, 2, "the thread begins with the message that it was started from")
	require.Equal(t, discordgo.MessageTypeThreadStarterMessage, list[1].Type)
	require.NoError(t, d.ChannelMessageDelete(thread.ID, sent.ID))
	require.Empty(t, s.Messages(thread.ID))
	h.wait(t, "MESSAGE_DELETE", 1)
}

func TestCommandsClicksAndModals(t *testing.T) {
	t.Parallel()
	s := fake(t, Options{TakeUnknown: true})
	d := library(t, s)
	_, err := d.ApplicationCommandBulkOverwrite(AppID, Guild, []*discordgo.ApplicationCommand{{
		Name: "agent", Description: "Work with the agent", Options: []*discordgo.ApplicationCommandOption{{
			Type: discordgo.ApplicationCommandOptionSubCommand, Name: "run", Description: "Start a session", Options: []*discordgo.ApplicationCommandOption{
				{Type: discordgo.ApplicationCommandOptionString, Name: "task", Description: "What to do", Required: true},
				{Type: discordgo.ApplicationCommandOptionString, Name: "backend", Description: "Where", Autocomplete: true},
			},
		}},
	}})
	require.NoError(t, err)
	d.AddHandler(func(d *discordgo.Session, i *discordgo.InteractionCreate) {
		var r *discordgo.InteractionResponse
		switch i.Type {
		case discordgo.InteractionApplicationCommand:
			_ = d.InteractionRespond(i.Interaction, &discordgo.InteractionResponse{
				Type: discordgo.InteractionResponseDeferredChannelMessageWithSource, Data: &discordgo.InteractionResponseData{Flags: discordgo.MessageFlagsEphemeral},
			})
			text := "task: " + i.ApplicationCommandData().Options[0].Options[0].StringValue()
			_, _ = d.InteractionResponseEdit(i.Interaction, &discordgo.WebhookEdit{Content: &text, Components: &[]discordgo.MessageComponent{
				discordgo.ActionsRow{Components: []discordgo.MessageComponent{discordgo.Button{Label: "Why", CustomID: "why", Style: discordgo.PrimaryButton}}},
			}})
			return
		case discordgo.InteractionApplicationCommandAutocomplete:
			r = &discordgo.InteractionResponse{Type: discordgo.InteractionApplicationCommandAutocompleteResult, Data: &discordgo.InteractionResponseData{
				Choices: []*discordgo.ApplicationCommandOptionChoice{{Name: "local", Value: "local"}},
			}}
		case discordgo.InteractionMessageComponent:
			r = &discordgo.InteractionResponse{Type: discordgo.InteractionResponseModal, Data: &discordgo.InteractionResponseData{
				CustomID: "why:1", Title: "Reason", Components: []discordgo.MessageComponent{discordgo.ActionsRow{Components: []discordgo.MessageComponent{
					discordgo.TextInput{CustomID: "reason", Label: "Reason", Style: discordgo.TextInputShort, Required: true, MaxLength: 20},
				}}},
			}}
		case discordgo.InteractionModalSubmit:
			row := i.ModalSubmitData().Components[0].(*discordgo.ActionsRow)
			r = &discordgo.InteractionResponse{Type: discordgo.InteractionResponseUpdateMessage, Data: &discordgo.InteractionResponseData{
				Content: "because " + row.Components[0].(*discordgo.TextInput).Value,
			}}
		}
		_ = d.InteractionRespond(i.Interaction, r)
	})
	listen(t, d)

	auto, err := s.Autocomplete(Ada, General, "agent run", "backend", "lo", nil)
	require.NoError(t, err)
	require.Equal(t, []Choice{{Name: "local", Value: "local"}}, auto.Answer().Choices)

	run, err := s.Slash(Ada, General, "agent run", map[string]any{"task": "fix it"})
	require.NoError(t, err)
	require.Equal(t, AnswerDeferred, run.Answer().Kind)
	require.Eventually(t, func() bool { m, _ := run.Message(); return m.Content == "task: fix it" && !m.Loading() }, wait5, tick)
	require.Empty(t, s.Messages(General), "it is ephemeral")
	shown := s.Ephemerals(Ada)
	require.Len(t, shown, 1)
	_, err = s.Click(Grace, General, shown[0].ID, "Why")
	require.Error(t, err, "nobody else sees it")

	click, err := s.Click(Ada, General, shown[0].ID, "Why")
	require.NoError(t, err)
	a := click.Answer()
	require.Equal(t, AnswerModal, a.Kind)
	_, err = s.Submit(a.Modal, map[string]string{"Reason": strings.Repeat("x", 21)})
	require.Error(t, err)
	submit, err := s.Submit(a.Modal, map[string]string{"Reason": "it is late"})
	require.NoError(t, err)
	require.Equal(t, AnswerUpdate, submit.Answer().Kind)
	require.Equal(t, "because it is late", s.Ephemerals(Ada)[0].Content)
}

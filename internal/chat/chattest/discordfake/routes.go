package discordfake

// apiRoutes are the routes of the REST API that the fake has.
func apiRoutes() map[string]route {
	return map[string]route{
		"GET /gateway":     {open: true, do: (*Server).getGateway},
		"GET /gateway/bot": {do: (*Server).getGatewayBot},

		"GET /users/@me":                       {do: (*Server).getMe},
		"GET /users/@me/guilds":                {do: (*Server).getMyGuilds},
		"GET /users/@me/guilds/{guild}/member": {do: (*Server).getMember},
		"GET /users/{user}":                    {do: (*Server).getUser},
		"GET /applications/@me":                {do: (*Server).getApplication},
		"GET /oauth2/applications/@me":         {do: (*Server).getApplication},

		"GET /guilds/{guild}":                {do: (*Server).getGuild},
		"GET /guilds/{guild}/channels":       {do: (*Server).getChannels},
		"GET /guilds/{guild}/roles":          {do: (*Server).getRoles},
		"GET /guilds/{guild}/members":        {do: (*Server).listMembers},
		"GET /guilds/{guild}/members/{user}": {do: (*Server).getMember},
		"GET /guilds/{guild}/threads/active": {do: (*Server).activeThreads},

		"GET /channels/{channel}":                                      {do: (*Server).getChannel},
		"PATCH /channels/{channel}":                                    {shape: channelPatchBody, do: (*Server).patchChannel},
		"DELETE /channels/{channel}":                                   {do: (*Server).deleteChannel},
		"GET /channels/{channel}/messages":                             {do: (*Server).listMessages},
		"POST /channels/{channel}/messages":                            {shape: createBody, do: (*Server).createMessage},
		"POST /channels/{channel}/messages/bulk-delete":                {shape: bulkDeleteBody, do: (*Server).bulkDelete},
		"GET /channels/{channel}/messages/{message}":                   {do: (*Server).getMessage},
		"PATCH /channels/{channel}/messages/{message}":                 {shape: editBody, do: (*Server).editMessage},
		"DELETE /channels/{channel}/messages/{message}":                {do: (*Server).deleteMessage},
		"POST /channels/{channel}/messages/{message}/threads":          {status: 201, shape: threadFromMessageBody, do: (*Server).threadFromMessage},
		"POST /channels/{channel}/threads":                             {status: 201, shape: threadBody, do: (*Server).threadAlone},
		"GET /channels/{channel}/threads/archived/public":              {do: (*Server).archivedThreads},
		"POST /channels/{channel}/typing":                              {do: (*Server).typing},
		"PUT /channels/{channel}/thread-members/@me":                   {do: (*Server).joinThread},
		"DELETE /channels/{channel}/thread-members/@me":                {do: (*Server).leaveThread},
		"PUT /channels/{channel}/thread-members/{user}":                {do: (*Server).addToThread},
		"GET /channels/{channel}/thread-members":                       {do: (*Server).threadMembers},
		"POST /interactions/{interaction}/{token}/callback":            {open: true, shape: callbackBody, do: (*Server).callback},
		"POST /webhooks/{app}/{token}":                                 {open: true, shape: followupBody, do: (*Server).followup},
		"GET /webhooks/{app}/{token}/messages/{message}":               {open: true, do: (*Server).getAnswer},
		"PATCH /webhooks/{app}/{token}/messages/{message}":             {open: true, shape: webhookEditBody, do: (*Server).editAnswer},
		"DELETE /webhooks/{app}/{token}/messages/{message}":            {open: true, do: (*Server).deleteAnswer},
		"GET /applications/{app}/commands":                             {do: (*Server).getCommands},
		"PUT /applications/{app}/commands":                             {shape: commandsBody, do: (*Server).putCommands},
		"POST /applications/{app}/commands":                            {shape: commandShape, do: (*Server).postCommand},
		"DELETE /applications/{app}/commands/{command}":                {do: (*Server).deleteCommand},
		"GET /applications/{app}/guilds/{guild}/commands":              {do: (*Server).getCommands},
		"PUT /applications/{app}/guilds/{guild}/commands":              {shape: commandsBody, do: (*Server).putCommands},
		"POST /applications/{app}/guilds/{guild}/commands":             {shape: commandShape, do: (*Server).postCommand},
		"DELETE /applications/{app}/guilds/{guild}/commands/{command}": {do: (*Server).deleteCommand},
	}
}

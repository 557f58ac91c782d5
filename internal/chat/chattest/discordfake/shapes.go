package discordfake

// The shapes of bodies, with the limits of the API's OpenAPI description and,
// where they are lower, of the documentation. A field that the description calls
// nullable may be null.

// maxContent is a bot's (Message, Create Message).
const maxContent = 2000

func messageBody() *schema {
	return record(map[string]*schema{
		"content": str(0, maxContent).null(), "embeds": list(embedShape(), 0, 10).null(), "allowed_mentions": mentionsShape(),
		"components": list(componentShape(), 0, 40).null(), "attachments": list(attachmentShape(), 0, 10).null(), "flags": integer(0, 0).null(),
	})
}

func createBody() *schema {
	return messageBody().with(map[string]*schema{
		"sticker_ids": list(snowflake(), 0, 3).null(), "poll": anything().null(), "shared_client_theme": anything().null(),
		"nonce": {kind: "nonce", nullable: true}, "enforce_nonce": boolean().null(), "tts": boolean().null(),
		"message_reference": record(map[string]*schema{
			"guild_id": snowflake().null(), "channel_id": snowflake().null(), "message_id": snowflake().must(),
			"fail_if_not_exists": boolean().null(), "type": numbers("0", "1").null(),
		}).null(),
	})
}

func editBody() *schema {
	return messageBody().with(map[string]*schema{"sticker_ids": list(snowflake(), 0, 1521).null()})
}

func embedShape() *schema {
	link := func() *schema { return str(0, 2048).null() }
	image := func() *schema {
		return record(map[string]*schema{
			"url": link(), "width": integer(0, 0).null(), "height": integer(0, 0).null(), "placeholder": str(0, 64).null(),
			"placeholder_version": integer(0, 0).null(), "is_animated": boolean().null(), "description": str(0, 4096).null(),
		}).null()
	}
	return record(map[string]*schema{
		"type": str(0, 0).null(), "url": link(), "title": str(0, 256).null(), "color": integer(0, 0xffffff).null(),
		"timestamp": {kind: "time", nullable: true}, "description": str(0, 4096).null(),
		"author":    record(map[string]*schema{"name": str(0, 256).null(), "url": link(), "icon_url": link()}).null(),
		"image":     image(),
		"thumbnail": image(),
		"footer":    record(map[string]*schema{"text": str(0, 2048).null(), "icon_url": link()}).null(),
		"fields": list(record(map[string]*schema{
			"name": str(1, 256).must(), "value": str(1, 1024).must(), "inline": boolean().null(),
		}), 0, 25).null(),
		"provider": record(map[string]*schema{"name": str(0, 256).null(), "url": link()}).null(), "video": image(),
	})
}

func mentionsShape() *schema {
	return record(map[string]*schema{
		"parse": list(oneOf("users", "roles", "everyone").null(), 0, 0).once().null(),
		"users": list(snowflake().null(), 0, 100).once().null(), "roles": list(snowflake().null(), 0, 100).once().null(),
		"replied_user": boolean().null(),
	}).null()
}

func attachmentShape() *schema {
	return record(map[string]*schema{
		"id": snowflake().must(), "filename": str(1, 1024).null(), "description": str(0, 1024).null(), "duration_secs": anything().null(),
		"waveform": str(0, 400).null(), "title": str(0, 1024).null(), "is_spoiler": boolean().null(), "is_remix": boolean().null(),
	})
}

// kind is a component of a type with its fields.
func component(kind string, fields map[string]*schema) *schema {
	return record(map[string]*schema{"type": numbers(kind).must(), "id": integer(0, 0).null()}).with(fields)
}

func emojiShape() *schema {
	return record(map[string]*schema{"id": snowflake().null(), "name": str(0, 32).must()}).null()
}

func buttonShape() *schema {
	return component("2", map[string]*schema{
		"custom_id": str(1, 100).null(), "style": numbers("1", "2", "3", "4", "5", "6").must(), "label": str(0, 80).null(),
		"disabled": boolean().null(), "url": str(0, 512).null(), "sku_id": snowflake().null(), "emoji": emojiShape(),
	})
}

func selectShape(kind string, more map[string]*schema) *schema {
	return component(kind, map[string]*schema{
		"custom_id": str(1, 100).must(), "placeholder": str(0, 150).null(), "min_values": integer(0, 25).null(),
		"max_values": integer(1, 25).null(), "disabled": boolean().null(), "required": boolean().null(),
	}).with(more)
}

// menus are the select menus of an action row and of a modal's label.
func menus() map[string]*schema {
	defaults := func(kind string) map[string]*schema {
		return map[string]*schema{"default_values": list(record(map[string]*schema{
			"type": oneOf(kind).must(), "id": snowflake().must(),
		}), 0, 25).null()}
	}
	mentionable := map[string]*schema{"default_values": anything().null()}
	channels := defaults("channel")
	channels["channel_types"] = list(integer(0, 0), 0, 0).once().null()
	return map[string]*schema{
		"3": selectShape("3", map[string]*schema{"options": list(record(map[string]*schema{
			"label": str(1, 100).must(), "value": str(1, 100).must(), "description": str(0, 100).null(),
			"default": boolean().null(), "emoji": emojiShape(),
		}), 1, 25).must()}),
		"5": selectShape("5", defaults("user")), "6": selectShape("6", defaults("role")),
		"7": selectShape("7", mentionable), "8": selectShape("8", channels),
	}
}

func rowShape() *schema {
	inside := menus()
	inside["2"] = buttonShape()
	return component("1", map[string]*schema{"components": list(byType(inside), 1, 5).must()})
}

func mediaShape() *schema { return record(map[string]*schema{"url": str(1, 2048).must()}) }

func textShape() *schema {
	return component("10", map[string]*schema{"content": str(1, 4000).must()})
}

// simpleShapes are the components that may stand in a container, and at the top.
func simpleShapes() map[string]*schema {
	thumbnail := component("11", map[string]*schema{"media": mediaShape().must(), "description": str(1, 1024).null(), "spoiler": boolean().null()})
	return map[string]*schema{
		"1": rowShape(), "10": textShape(),
		"9": component("9", map[string]*schema{
			"components": list(byType(map[string]*schema{"10": textShape()}), 1, 3).must(),
			"accessory":  byType(map[string]*schema{"2": buttonShape(), "11": thumbnail}).must(),
		}),
		"12": component("12", map[string]*schema{"items": list(record(map[string]*schema{
			"media": mediaShape().must(), "description": str(1, 1024).null(), "spoiler": boolean().null(),
		}), 1, 10).must()}),
		"13": component("13", map[string]*schema{"file": mediaShape().must(), "spoiler": boolean().null()}),
		"14": component("14", map[string]*schema{"spacing": numbers("1", "2").null(), "divider": boolean().null()}),
	}
}

func componentShape() *schema {
	all := simpleShapes()
	all["17"] = component("17", map[string]*schema{
		"components": list(byType(simpleShapes()), 1, 40).must(), "accent_color": integer(0, 0xffffff).null(), "spoiler": boolean().null(),
	})
	return byType(all)
}

// inputShape is a modal's text input. Its label is needed in an action row and
// belongs to the label component elsewhere.
func inputShape(label bool) *schema {
	s := component("4", map[string]*schema{
		"custom_id": str(1, 100).must(), "style": numbers("1", "2").must(), "value": str(0, 4000).null(), "placeholder": str(0, 100).null(),
		"required": boolean().null(), "min_length": integer(0, 4000).null(), "max_length": integer(1, 4000).null(), "label": str(1, 45).null(),
	})
	if label {
		s.fields["label"] = str(1, 45).must()
	}
	return s
}

func modalShape() *schema {
	labelled := menus()
	labelled["4"] = inputShape(false)
	field := func(kind string, more map[string]*schema) *schema {
		return component(kind, map[string]*schema{"custom_id": str(1, 100).must()}).with(more)
	}
	options := func(least int64) *schema {
		return list(record(map[string]*schema{
			"value": str(1, 100).must(), "label": str(1, 100).must(), "description": str(1, 100).null(), "default": boolean().null(),
		}), least, 10).must()
	}
	labelled["19"] = field("19", map[string]*schema{ // file upload
		"min_values": integer(0, 10).null(), "max_values": integer(1, 10).null(), "required": boolean().null(),
	})
	labelled["21"] = field("21", map[string]*schema{"options": options(2), "required": boolean().null()}) // radio group
	labelled["22"] = field("22", map[string]*schema{                                                      // checkbox group
		"options": options(1), "min_values": integer(0, 10).null(), "max_values": integer(1, 10).null(), "required": boolean().null(),
	})
	labelled["23"] = field("23", map[string]*schema{"default": boolean().null()}) // checkbox
	return record(map[string]*schema{
		"custom_id": str(1, 100).must(), "title": str(1, 45).must(),
		// Five by the documentation (Interaction Callback Data Structure, Modal).
		"components": list(byType(map[string]*schema{
			"1": component("1", map[string]*schema{"components": list(byType(map[string]*schema{"4": inputShape(true)}), 1, 1).must()}),
			"18": component("18", map[string]*schema{
				"label": str(1, 45).must(), "description": str(1, 100).null(), "component": byType(labelled).must(),
			}),
			"10": textShape(),
		}), 1, 5).must(),
	})
}

// callbackBody is an interaction's first answer, by its type.
func callbackBody() *schema {
	kind := func(n string, data *schema) *schema {
		return record(map[string]*schema{"type": numbers(n).must(), "data": data})
	}
	message := func() *schema {
		return messageBody().with(map[string]*schema{"poll": anything().null(), "tts": boolean().null()}).null()
	}
	choices := record(map[string]*schema{"choices": list(record(map[string]*schema{
		"name": str(1, 100).must(), "name_localizations": mapping(str(1, 100)).null(), "value": anything().must(),
	}), 0, 25).null()}).must()
	return byType(map[string]*schema{
		"4": kind("4", message()), "5": kind("5", message()), "6": kind("6", messageBody().null()), "7": kind("7", messageBody().null()),
		"8": kind("8", choices), "9": kind("9", modalShape().must()),
	})
}

func followupBody() *schema {
	return messageBody().with(map[string]*schema{
		"poll": anything().null(), "tts": boolean().null(), "username": str(1, 80).null(), "avatar_url": str(0, 2048).null(),
		"thread_name": str(0, 100).null(), "applied_tags": list(snowflake(), 0, 5).null(),
	})
}

func webhookEditBody() *schema {
	return messageBody().with(map[string]*schema{"poll": anything().null()})
}

// archiveAfter are the minutes a thread may be set to (Channel, Modify Channel).
func archiveAfter() *schema { return numbers("60", "1440", "4320", "10080").null() }

func threadFromMessageBody() *schema {
	return record(map[string]*schema{
		"name": str(1, 100).must(), "auto_archive_duration": archiveAfter(), "rate_limit_per_user": integer(0, 21600).null(),
	})
}

func threadBody() *schema {
	return threadFromMessageBody().with(map[string]*schema{"type": numbers("10", "11", "12").null(), "invitable": boolean().null()})
}

// channelPatchBody is a thread's: the fake's bots change nothing of channels.
func channelPatchBody() *schema {
	return record(map[string]*schema{
		"name": str(0, 100).null(), "archived": boolean().null(), "locked": boolean().null(), "invitable": boolean().null(),
		"auto_archive_duration": archiveAfter(), "rate_limit_per_user": integer(0, 21600).null(), "flags": integer(0, 0).null(),
		"applied_tags": list(snowflake(), 0, 5).null(), "bitrate": integer(8000, 0).null(), "user_limit": integer(0, 99).null(),
		"rtc_region": str(0, 0).null(), "video_quality_mode": numbers("1", "2").null(),
	})
}

func bulkDeleteBody() *schema {
	return record(map[string]*schema{"messages": list(snowflake(), 2, 100).once().must()})
}

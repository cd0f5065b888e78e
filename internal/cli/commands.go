package cli

// commands returns all commands of a program, in the order of the help.
func (p Program) commands() []command {
	if p.Beside {
		return []command{getCommand(), heldCommand(), acceptCommand()}
	}
	all := []command{statusCommand(), clientsCommand(), problemsCommand()}
	if p.Remote {
		all = append(all, explainCommand(), matchCommand(), diffCommand())
	}
	return append(all, heldCommand(), acceptCommand())
}

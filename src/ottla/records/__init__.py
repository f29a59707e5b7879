"""(story to come)"""
